#include "server/e2b/volumes.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include <boost/asio/this_coro.hpp>

#include "base/hooks.hpp"
#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/json_reader.hpp"
#include "base/log.hpp"
#include "base/strings.hpp"
#include "lifecycle/volume_use.hpp"
#include "protocol/e2b/fields.hpp"
#include "server/e2b/volume_files.hpp"

namespace berth::e2b {

namespace {

constexpr std::size_t kMost = 1000; // of one tenant
constexpr std::size_t kLongestName = 128;

std::string directory_of(const gate::Ground& ground) { return ground.berth.data() + "/e2b/volumes"; }

std::string shared_name(const std::string& id) { return std::string(volumes::kShared) + id; }

volumes::Known known_of(const std::string& id)
{
    const std::string name = shared_name(id);
    const std::string owner = volumes::owner_of({}, name);
    return {.directory = volume_directory_name(owner, name), .key = owner, .name = name};
}

Result<KeptVolume> parse_volume_card(std::string_view text)
{
    BERTH_TRY(const auto document, json::parse(text));
    const json::Reader reader(document);
    KeptVolume out;
    BERTH_TRY(out.id, fields::text(reader, "id"));
    BERTH_TRY(out.tenant, fields::text(reader, "tenant"));
    BERTH_TRY(out.name, fields::text(reader, "name"));
    BERTH_TRY(out.token, fields::text(reader, "token"));
    BERTH_TRY(out.going, fields::flag(reader, "going"));
    if (out.id.empty() || out.tenant.empty() || out.token.empty()) return reader.refuse("incomplete");
    return out;
}

bool is_name(std::string_view name)
{
    return !name.empty() && name.size() <= kLongestName && std::ranges::all_of(name, [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
               c == '-';
    });
}

/// Absolute, and as nobody could write it shorter.
bool is_clean(const std::string& path)
{
    if (path.size() < 2 || path.front() != '/' || path.back() == '/') return false;
    if (path.find('\0') != std::string::npos) return false;
    const auto parts = split(path.substr(1), '/');
    return std::ranges::all_of(parts,
                               [](const auto& part) { return !part.empty() && part != "." && part != ".."; });
}

} // namespace

Volumes::Volumes(gate::Ground& ground) : ground_(ground), documents_(ground.pool, directory_of(ground)) {}

Task<Status> Volumes::save(const KeptVolume& volume)
{
    json::Object out;
    out["id"] = volume.id;
    out["tenant"] = volume.tenant;
    out["name"] = volume.name;
    out["token"] = volume.token;
    out["going"] = volume.going;
    return documents_.save(volume.id + ".json", json::dump(out) + "\n");
}

Task<Status> Volumes::load()
{
    std::vector<KeptVolume> found;
    BERTH_CO_CHECK(co_await ground_.pool.call([&]() -> Status {
        BERTH_TRY(const auto directory, gate::open_directory(documents_.directory()));
        BERTH_TRY(const auto names, list_names(directory.get()));
        for (const auto& name : names) {
            if (!name.ends_with(".json")) continue;
            const auto text = read_file_at(directory.get(), name);
            auto volume = text ? parse_volume_card(*text) : Result<KeptVolume>(std::unexpected(text.error()));
            if (volume)
                found.push_back(*std::move(volume));
            else
                log::warn("a volume cannot be read", {{"name", name}, {"why", volume.error().line()}});
        }
        return {};
    }));
    for (auto& one : found) {
        auto volume = std::make_shared<KeptVolume>(std::move(one));
        volumes_[volume->id] = volume;
        if (!volume->going) continue;
        if (auto gone = co_await finish_removal(volume); !gone)
            log::warn("a volume could not be removed",
                      {{"volume", volume->id}, {"why", gone.error().line()}});
    }
    co_return Status{};
}

/// The directory is made by whoever needs it first: a server that is killed in between leaves a volume that
/// is empty, which is what was asked for.
Task<Result<VolumePtr>> Volumes::create(std::string name, std::string tenant)
{
    if (!is_name(name))
        co_return fail(Code::Invalid, "invalid volume name '{}': letters, digits, '_' and '-', {} at most",
                       printable(name, 60), kLongestName);
    const auto known = all(tenant);
    if (std::ranges::any_of(known, [&](const auto& one) { return one->name == name; }))
        co_return fail(Code::Conflict, "a volume named '{}' exists", name);
    if (known.size() >= kMost) co_return fail(Code::Exhausted, "{} volumes are the most", kMost);
    auto volume = std::make_shared<KeptVolume>();
    volume->id = "vol" + random_hex(10);
    volume->tenant = std::move(tenant);
    volume->name = std::move(name);
    volume->token = random_hex(24);
    // Known before it is written: a second of the same name must not come in between.
    volumes_[volume->id] = volume;
    if (auto saved = co_await save(*volume); !saved) {
        volumes_.erase(volume->id);
        co_return std::unexpected(std::move(saved).error());
    }
    hooks::kill_point("volume recorded");
    const auto made = co_await ground_.pool.call(
        [&] { return open(ground_.berth.lifecycle().volume_directory(), volume->id); });
    if (!made) co_return std::unexpected(made.error());
    co_return volume;
}

Result<UniqueFd> Volumes::open(const std::string& root, const std::string& id)
{
    SandboxSpec spec;
    spec.volumes.push_back({.name = shared_name(id), .target = "/volume", .writable = true, .source = {}});
    BERTH_CHECK(volumes::provide(root, {}, spec));
    UniqueFd directory(
        ::open(spec.volumes.front().source.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!directory) return fail_errno("opening volume {}", id);
    BERTH_CHECK(VolumeFiles::adopt(directory.get()));
    return directory;
}

Task<Status> Volumes::remove(VolumePtr volume)
{
    if (volume->pin.use_count() > 1) co_return fail(Code::Conflict, "volume '{}' is in use", volume->name);
    auto& store = ground_.berth.store();
    const auto data = ground_.berth.data();
    const auto known = known_of(volume->id);
    volume->going = true; // from here on nobody gets it
    auto unused =
        co_await ground_.pool.call([&] { return volumes::remove_unused(store, data, known, true); });
    if (unused) unused = co_await save(*volume);
    if (!unused) {
        volume->going = false;
        co_return unused;
    }
    hooks::kill_point("volume going");
    co_return co_await finish_removal(std::move(volume));
}

Task<Status> Volumes::finish_removal(VolumePtr volume)
{
    auto& store = ground_.berth.store();
    const auto data = ground_.berth.data();
    const auto known = known_of(volume->id);
    BERTH_CO_CHECK(co_await ground_.pool.call([&]() -> Status {
        BERTH_CHECK(volumes::remove_unused(store, data, known, false));
        hooks::kill_point("volume gone");
        return {};
    }));
    BERTH_CO_CHECK(co_await documents_.remove(volume->id + ".json"));
    volumes_.erase(volume->id);
    co_return Status{};
}

std::vector<VolumePtr> Volumes::all(std::string_view tenant) const
{
    std::vector<VolumePtr> out;
    for (const auto& [id, volume] : volumes_)
        if (volume->tenant == tenant && !volume->going) out.push_back(volume);
    return out;
}

VolumePtr Volumes::find(std::string_view id) const
{
    const auto at = volumes_.find(id);
    return at == volumes_.end() || at->second->going ? nullptr : at->second;
}

Result<VolumePtr> Volumes::of_tenant(std::string_view id, std::string_view tenant) const
{
    auto volume = find(id);
    // Somebody else's is not there.
    if (!volume || volume->tenant != tenant)
        return fail(Code::NotFound, "volume '{}' not found", printable(id, 60));
    return volume;
}

Result<Volumes::Mounts> Volumes::mounts(const std::vector<VolumeMount>& wishes, std::string_view tenant) const
{
    Mounts out;
    if (wishes.empty()) return out;
    const auto known = all(tenant);
    std::set<std::string> paths;
    for (const auto& wish : wishes) {
        const auto at = std::ranges::find(known, wish.name, &KeptVolume::name);
        if (at == known.end())
            return fail(Code::Invalid, "volumeMounts: volume '{}' not found", printable(wish.name, 60));
        if (!is_clean(wish.path))
            return fail(Code::Invalid, "volumeMounts: '{}' is not an absolute, clean path",
                        printable(wish.path, 100));
        if (!paths.insert(wish.path).second)
            return fail(Code::Invalid, "volumeMounts: two volumes at '{}'", printable(wish.path, 100));
        out.volumes.push_back(
            {.name = shared_name((*at)->id), .target = wish.path, .writable = true, .source = {}});
        out.pins.push_back((*at)->pin);
    }
    return out;
}

} // namespace berth::e2b

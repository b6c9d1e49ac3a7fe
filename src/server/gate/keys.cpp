// Protects sandboxes from whoever has no key. Secrets are drawn from the kernel, kept as digests and
// compared as digests; only the first one is kept readable, because its lines are printed at each start.

#include "server/gate/keys.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "base/encoding.hpp"
#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/json_reader.hpp"
#include "base/sha256.hpp"
#include "base/strings.hpp"

namespace berth::gate {

namespace {

constexpr const char* kFile = "keys.json";
constexpr const char* kFirst = "api-key";
constexpr std::size_t kSecret = 20; // bytes
constexpr std::size_t kIdSize = 12;
constexpr std::chrono::seconds kLookAgain{1};

Result<UniqueFd> open_data(const std::string& data)
{
    UniqueFd directory(::open(data.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!directory) return fail_errno("opening {}", data);
    return directory;
}

/// Whoever changes the file holds this.
Result<UniqueFd> lock_keys(int directory)
{
    UniqueFd lock(::openat(directory, "keys.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock) return fail_errno("opening keys.lock");
    if (::flock(lock.get(), LOCK_EX) != 0) return fail_errno("locking keys.lock");
    return lock;
}

Result<std::vector<Key>> parse_keys(int directory)
{
    std::vector<Key> out;
    auto text = read_file_at(directory, kFile);
    if (!text && text.error().code == Code::NotFound) return out;
    if (!text) return std::unexpected(std::move(text).error());
    BERTH_TRY(const auto document, json::parse(*text));
    BERTH_TRY(const auto list, json::Reader(document).at("keys"));
    BERTH_TRY(const auto all, list.array());
    for (const auto& one : all) {
        Key key;
        BERTH_TRY(const auto tenant, one.at("tenant"));
        BERTH_TRY(key.tenant, tenant.string());
        BERTH_TRY(const auto digest, one.at("sha256"));
        BERTH_TRY(key.sha256, digest.string());
        if (key.sha256.size() != 64) return digest.refuse("not a SHA-256");
        key.id = key.sha256.substr(0, kIdSize);
        BERTH_TRY(const auto note, one.find("note"));
        if (note) {
            BERTH_TRY(key.note, note->string());
        }
        BERTH_TRY(const auto created, one.at("created"));
        BERTH_TRY(const auto time, created.integer(0, INT64_MAX));
        key.created = WallTime(std::chrono::seconds(time));
        out.push_back(std::move(key));
    }
    return out;
}

Result<std::vector<Key>> read_keys(int directory)
{
    auto keys = parse_keys(directory);
    if (keys) return keys;
    auto error = std::move(keys).error();
    if (error.code == Code::Invalid) error.code = Code::Internal; // nothing the caller asked for
    return std::unexpected(std::move(error).while_doing("reading keys.json of the state directory"));
}

Status write_keys(int directory, const std::vector<Key>& keys)
{
    json::Array list;
    for (const auto& key : keys) {
        json::Object one;
        one["tenant"] = key.tenant;
        one["note"] = key.note;
        one["sha256"] = key.sha256;
        one["created"] =
            std::chrono::duration_cast<std::chrono::seconds>(key.created.time_since_epoch()).count();
        list.emplace_back(std::move(one));
    }
    json::Object document;
    document["keys"] = std::move(list);
    return replace_file_at(directory, kFile, json::dump(document) + "\n", 0600);
}

std::string trimmed(std::string text)
{
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
    return text;
}

} // namespace

Status check_tenant(std::string_view tenant)
{
    constexpr std::string_view allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    if (!tenant.empty() && tenant.size() <= 40 && tenant.find_first_not_of(allowed) == std::string_view::npos)
        return {};
    return fail(Code::Invalid, "bad tenant '{}': 1 to 40 letters, digits, '-' and '_'",
                printable(tenant, 60));
}

Result<Key> Keys::keep(const std::string& secret, const std::string& tenant, const std::string& note) const
{
    BERTH_TRY(const auto directory, open_data(data_));
    BERTH_TRY(const auto lock, lock_keys(directory.get()));
    BERTH_TRY(auto keys, read_keys(directory.get()));
    Key key{.tenant = tenant, .note = note, .sha256 = sha256_hex(secret), .created = system_clock().now()};
    key.id = key.sha256.substr(0, kIdSize);
    keys.push_back(key);
    BERTH_CHECK(write_keys(directory.get(), keys));
    return key;
}

Result<std::string> Keys::first()
{
    BERTH_TRY(const auto directory, open_data(data_));
    auto known = read_file_at(directory.get(), kFirst);
    if (known) {
        std::string secret = trimmed(*std::move(known));
        reload();
        const std::string digest = sha256_hex(secret);
        // One that was removed stays removed.
        for (const auto& key : known_)
            if (key.sha256 == digest) return secret;
        return std::string{};
    }
    if (known.error().code != Code::NotFound) return std::unexpected(std::move(known).error());
    BERTH_TRY(auto secret, add(std::string(kDefaultTenant), "made at the first start"));
    BERTH_CHECK(replace_file_at(directory.get(), kFirst, secret + "\n", 0600));
    return secret;
}

Result<std::string> Keys::add(const std::string& tenant, const std::string& note)
{
    BERTH_CHECK(check_tenant(tenant));
    std::string secret = "e2b_" + random_hex(kSecret);
    BERTH_TRY([[maybe_unused]] const auto kept, keep(secret, tenant, note));
    return secret;
}

std::string Keys::id_of(std::string_view secret) { return sha256_hex(secret).substr(0, kIdSize); }

Result<std::vector<Key>> Keys::list() const
{
    BERTH_TRY(const auto directory, open_data(data_));
    return read_keys(directory.get());
}

Result<Key> Keys::remove(const std::string& id)
{
    BERTH_TRY(const auto directory, open_data(data_));
    BERTH_TRY(const auto lock, lock_keys(directory.get()));
    BERTH_TRY(auto keys, read_keys(directory.get()));
    for (auto at = keys.begin(); at != keys.end(); ++at) {
        if (at->id != id) continue;
        Key gone = *at;
        keys.erase(at);
        BERTH_CHECK(write_keys(directory.get(), keys));
        return gone;
    }
    return fail(Code::NotFound, "no key '{}': berth key ls lists them", printable(id, 60));
}

/// A file that changed is read again; one that cannot be read opens the door to nobody.
void Keys::reload()
{
    struct stat st{};
    const std::string path = data_ + "/" + kFile;
    if (::stat(path.c_str(), &st) != 0) {
        known_.clear();
        stamp_ = -1;
        return;
    }
    const auto stamp = static_cast<std::int64_t>(st.st_mtim.tv_sec) * 1'000'000'000 + st.st_mtim.tv_nsec +
                       static_cast<std::int64_t>(st.st_ino);
    if (stamp == stamp_) return;
    auto keys = list();
    known_ = keys ? *std::move(keys) : std::vector<Key>{};
    stamp_ = keys ? stamp : -1;
}

void Keys::also(std::string_view secret) { own_ = secret.empty() ? std::string{} : sha256_hex(secret); }

int Keys::watch()
{
    UniqueFd changes(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
    constexpr std::uint32_t what =
        IN_MOVE | IN_CREATE | IN_DELETE | IN_CLOSE_WRITE | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;
    if (changes && ::inotify_add_watch(changes.get(), data_.c_str(), what) >= 0)
        changes_ = std::move(changes);
    return changes_.get();
}

void Keys::changed()
{
    alignas(inotify_event) std::array<char, 512> told{};
    while (::read(changes_.get(), told.data(), told.size()) > 0) {
    }
    look_at_ = {};
}

bool Keys::may_have_changed()
{
    const auto now = system_clock().steady();
    if (changes_ && now < look_at_) return false;
    look_at_ = now + kLookAgain;
    return true;
}

std::optional<std::string> Keys::tenant_of(std::string_view secret)
{
    if (secret.empty()) return std::nullopt;
    const std::string digest = sha256_hex(secret);
    if (!own_.empty() && equal_secret(digest, own_)) return std::string(kDefaultTenant);
    if (may_have_changed()) reload();
    for (const auto& key : known_)
        if (equal_secret(key.sha256, digest)) return key.tenant;
    return std::nullopt;
}

} // namespace berth::gate

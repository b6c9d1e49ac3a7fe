#include "lifecycle/volume_use.hpp"

#include <map>

#include "base/strings.hpp"
#include "lifecycle/key_lock.hpp"

namespace berth::volumes {

namespace {

bool may_run(const SandboxRecord& record)
{
    return record.state != State::Destroyed && record.state != State::Failed &&
           record.state != State::Detached;
}

/// Directory of a volume -> ids.
Result<std::map<std::string, std::vector<std::string>>> users(Store& store)
{
    constexpr std::size_t kPage = 1000;
    std::map<std::string, std::vector<std::string>> out;
    // A superseded one has given its key up, and runs on with its volumes for a while.
    RecordQuery query{.with_dead = true, .limit = kPage};
    for (;;) {
        BERTH_TRY(const auto page, store.list(query));
        for (const auto& record : page) {
            if (!may_run(record)) continue;
            if (!record.damage.empty())
                return fail(Code::Internal, "nobody can tell which volumes {} uses: {} (berth rm {})",
                            record.id(), record.damage, record.id());
            const std::string& key = record.key.empty() ? record.id() : record.key;
            for (const auto& volume : record.spec.volumes)
                out[volume_directory_name(owner_of(key, volume.name), volume.name)].push_back(record.id());
        }
        if (page.size() < kPage) return out;
        query.after = page.back().id();
    }
}

} // namespace

Result<std::vector<Use>> uses(Store& store, const std::string& data)
{
    BERTH_TRY(auto known, list(data + "/volume"));
    std::vector<Use> out;
    if (known.empty()) return out;
    BERTH_TRY(auto by, users(store));
    for (auto& volume : known) {
        auto ids = by[volume.directory];
        out.push_back({.volume = std::move(volume), .by = std::move(ids)});
    }
    return out;
}

Status remove_unused(Store& store, const std::string& data, const Known& volume, bool dry_run)
{
    // Whoever makes a sandbox holds the lock of its key, or of its id where it has no key.
    BERTH_TRY(const auto by_key, KeyLock::try_take(data + "/lock", "key:" + volume.key));
    BERTH_TRY(const auto by_id, KeyLock::try_take(data + "/lock", volume.key));
    if (!by_key || !by_id)
        return fail(Code::Unavailable, "somebody is at work on the sandbox of volume '{}': try again",
                    printable(volume.name, 60));
    BERTH_TRY(auto by, users(store));
    const auto& ids = by[volume.directory];
    if (!ids.empty())
        return fail(Code::Conflict, "sandbox {} has volume '{}': berth rm {} first", ids.front(),
                    printable(volume.name, 60), ids.front());
    if (dry_run) return {};
    return remove(data + "/volume", volume);
}

} // namespace berth::volumes

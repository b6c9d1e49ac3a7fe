#include "image/cache_collect.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>

#include "base/hooks.hpp"
#include "base/io.hpp"
#include "sys/remove_tree.hpp"
#include "sys/tree_size.hpp"

namespace berth::image {

namespace {

constexpr std::array<std::string_view, 3> kCollected = {"tar-", "image-", "layer-"};

/// Those who make things take them in this order.
constexpr std::array<const char*, 2> kMakers = {"tar.lock", "layer.lock"};

bool is_collected(std::string_view name)
{
    return std::ranges::any_of(kCollected, [&](std::string_view kind) { return name.starts_with(kind); });
}

/// When it was last asked for; one without the mark of being whole is as old as itself.
Result<WallTime> last_used(int dir, const std::string& name)
{
    struct stat st{};
    if (::fstatat(dir, "ready", &st, AT_SYMLINK_NOFOLLOW) != 0 && ::fstat(dir, &st) != 0)
        return fail_errno("looking at {}", name);
    return WallTime(std::chrono::seconds(st.st_mtim.tv_sec) + std::chrono::nanoseconds(st.st_mtim.tv_nsec));
}

} // namespace

Result<Collected> collect_cache(const Cache& cache, const CacheKeep& keep, bool dry_run)
{
    Collected out;
    std::vector<UniqueFd> makers;
    for (const char* name : kMakers) {
        UniqueFd lock(
            ::openat(cache.dir(), name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600));
        if (!lock) return fail_errno("opening {}/{}", cache.path(), name);
        if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return out;
        makers.push_back(std::move(lock));
    }
    const UniqueFd all(::openat(cache.dir(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!all) return fail_errno("opening {}", cache.path());
    BERTH_TRY(const auto names, list_names(all.get()));
    for (const auto& name : names) {
        if (!is_collected(name) || keep.used.contains(name)) continue;
        const UniqueFd one(
            ::openat(all.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
        // Whoever uses it for longer, or asks for it at this moment, holds it.
        if (!one || ::flock(one.get(), LOCK_EX | LOCK_NB) != 0) continue;
        BERTH_TRY(const auto used, last_used(one.get(), name));
        if (used >= keep.since) continue;
        out.objects.push_back("template " + name.substr(0, name.find('-') + 13));
        out.bytes += sys::tree_size(all.get(), name);
        if (dry_run) continue;
        BERTH_CHECK(sys::move_to_trash(all.get(), name, keep.trash));
        hooks::kill_point("collect: template in the trash");
    }
    return out;
}

} // namespace berth::image

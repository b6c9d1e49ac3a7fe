#pragma once

#include <set>
#include <string>

#include "base/clock.hpp"
#include "core/backend.hpp"
#include "image/cache.hpp"

namespace berth::image {

/// What of a cache is not to be collected, and where the rest goes.
struct CacheKeep {
    std::set<std::string> used; ///< by name: "tar-…"
    WallTime since{};           ///< what was used later stays, whoever used it
    int trash = -1;             ///< a directory of the same file system, borrowed; whoever calls empties it
};

/// Takes unpacked archives, images and their layers away that nobody uses: not among those that are used, not
/// held by anybody, and not asked for of late. The host's own are small and stay. Nothing while one is being
/// made. What is asked for again is made again.
[[nodiscard]] Result<Collected> collect_cache(const Cache& cache, const CacheKeep& keep, bool dry_run);

} // namespace berth::image

#pragma once

#include "sys/cgroup_group.hpp"

namespace berth::sys {

struct GroupMemory {
    Bytes used;  ///< without the cache
    Bytes cache; ///< of files
};

/// What the processes in a group and below it have in memory. A group that counts has the word. Else the
/// processes have: each tells its own pages; a page that two share after a fork counts twice, one of a
/// file never, so that there is no cache.
[[nodiscard]] Result<GroupMemory> memory_of(const GroupPlaces& places);

} // namespace berth::sys

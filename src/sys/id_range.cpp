#include "sys/id_range.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>

namespace berth::sys {

static_assert(std::uint64_t{IdRange::kFirstId} + std::uint64_t{IdRange::kSlots} * IdRange::kSize <=
              std::uint64_t{1} << 31);

Result<IdRange> IdRange::lease_slot(int directory, unsigned slot)
{
    if (slot >= kSlots)
        return fail(Code::Invalid, "id range {} does not exist, the last one is {}", slot, kSlots - 1);
    const std::string name = fmt::format("slot-{}", slot);
    UniqueFd lock(
        ::openat(directory, name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600));
    if (!lock) return fail_errno("opening the lock of id range {}", name);
    while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK) return fail(Code::Conflict, "id range {} is taken", name);
        if (errno != EINTR) return fail_errno("locking id range {}", name);
    }
    return IdRange(slot, std::move(lock));
}

Result<IdRange> IdRange::lease(int directory)
{
    // A random start, so that programs that start together do not walk the same taken slots.
    unsigned start = 0;
    if (::getrandom(&start, sizeof start, 0) != static_cast<ssize_t>(sizeof start))
        return fail_errno("drawing a random id range");
    for (unsigned i = 0; i < kSlots; ++i) {
        auto range = lease_slot(directory, (start + i) % kSlots);
        if (range || range.error().code != Code::Conflict) return range;
    }
    return fail(Code::Exhausted, "all {} id ranges are taken by live sandboxes", kSlots);
}

} // namespace berth::sys

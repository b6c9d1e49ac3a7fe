#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace berth::sys {

/// A lease of 65 536 user and group ids that no other live sandbox of this machine has.
///
/// The lease is an flock on a file `slot-N`: it belongs to the open file description, so it dies
/// with the last process that holds the descriptor (whoever that is, however it ends) and needs
/// nobody to clean up. Pass fd() to the keeper and the range is taken for as long as it lives. The
/// files themselves stay: removing a lock file is how two holders of one lock come about.
class IdRange {
public:
    static constexpr std::uint32_t kFirstId = 1'879'048'192; ///< 0x70000000, above what distributions use
    static constexpr std::uint32_t kSize = 65'536;
    static constexpr unsigned kSlots = 4096; ///< the last one ends below 2^31

    /// Any free slot, in the directory all berth programs of this machine share.
    [[nodiscard]] static Result<IdRange> lease(int directory);
    /// This slot; Conflict when somebody has it.
    [[nodiscard]] static Result<IdRange> lease_slot(int directory, unsigned slot);

    /// One that somebody else holds: its numbers, without a lease.
    [[nodiscard]] static IdRange known(unsigned slot) noexcept { return {slot, UniqueFd{}}; }

    [[nodiscard]] unsigned slot() const noexcept { return slot_; }
    /// The host-side id that is 0 inside.
    [[nodiscard]] std::uint32_t base() const noexcept { return kFirstId + slot_ * kSize; }
    /// Borrowed; a duplicate or inherited copy of it prolongs the lease.
    [[nodiscard]] int fd() const noexcept { return lock_.get(); }
    /// Leaves the lease to those who have a copy of the descriptor.
    void pass_on() noexcept { lock_.reset(); }

private:
    IdRange(unsigned slot, UniqueFd lock) noexcept : slot_(slot), lock_(std::move(lock)) {}
    unsigned slot_;
    UniqueFd lock_;
};

} // namespace berth::sys

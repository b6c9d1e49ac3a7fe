#pragma once

#include <map>
#include <string>

#include "lifecycle/answers.hpp"

namespace berth {

/// Which snapshots a wish keeps. Asked of all of them, newest first.
class SnapshotKeeping {
public:
    SnapshotKeeping(const GcWish& wish, WallTime now) : wish_(wish), now_(now) {}

    /// Of its sandbox none was asked of before it.
    [[nodiscard]] bool newest(const SnapshotRecord& snapshot) const
    {
        return !kept_.contains(snapshot.sandbox);
    }
    /// Why it goes; empty: it stays, and counts. `needed`: its sandbox may have to be made anew from it.
    [[nodiscard]] std::string why_not(const SnapshotRecord& snapshot, bool needed);

private:
    [[nodiscard]] std::string too_many_or_old(const SnapshotRecord& snapshot) const;
    [[nodiscard]] std::string too_large(const SnapshotRecord& snapshot);

    GcWish wish_;
    WallTime now_;
    std::map<std::string, std::size_t> kept_; ///< of each sandbox
    std::uint64_t total_ = 0;
    bool full_ = false; ///< one did not fit: what is older goes, however small
};

} // namespace berth

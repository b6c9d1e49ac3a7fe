#pragma once

#include "core/backend.hpp"

namespace berth {

/// What a backend is besides that takes snapshots without counting what they hold; found by dynamic_cast.
class WeighsSnapshots {
public:
    virtual ~WeighsSnapshots() = default;
    /// What of the disk is this one's alone, not of those before it. Takes as long as there are files.
    virtual Task<Result<std::uint64_t>> weigh(SnapshotSource snapshot) = 0;
};

} // namespace berth

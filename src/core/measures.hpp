#pragma once

#include "core/backend.hpp"

namespace berth {

/// What a sandbox takes of the machine at this moment; a backend leaves out what it cannot tell.
struct Measured {
    std::optional<Bytes> memory{};     ///< of its processes, without what caches files
    std::optional<Bytes> cache{};      ///< of files, in memory
    std::optional<Bytes> disk{};       ///< used of the file system its files are on, by whomever
    std::optional<Bytes> disk_total{}; ///< of that
};

/// A backend that can tell more than usage(), at more cost.
class Measures {
public:
    virtual ~Measures() = default;
    virtual Task<Result<Measured>> measure(SandboxHandle sandbox) = 0;
};

} // namespace berth

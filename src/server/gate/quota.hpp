#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/blocking_pool.hpp"
#include "core/store.hpp"

namespace berth::gate {

/// How many sandboxes a tenant may have at once, stopped ones too. The store knows; it is asked only when a
/// tenant seems to have no room left, so that those far from their limit cost nothing. On the loop's thread.
class Quota {
public:
    /// 0: any number.
    explicit Quota(std::size_t most = 0) : most_(most) {}

    /// Room that is held for sandboxes until they are in the store, or have failed.
    using Room = std::shared_ptr<void>; // shared with nobody: the only pointer that takes any deleter
    /// Exhausted: there is none for so many more.
    Task<Result<Room>> take(Store& store, BlockingPool& pool, std::string tenant, std::size_t count);

private:
    struct Used {
        std::size_t known = 0;   ///< at most what the store has, at least that of the last count
        std::size_t pending = 0; ///< being made
        bool counted = false;
    };
    std::size_t most_;
    std::map<std::string, Used> tenants_; ///< as many as there are tenants
};

} // namespace berth::gate

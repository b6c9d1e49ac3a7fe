#pragma once

#include <string>
#include <vector>

#include "core/store.hpp"
#include "lifecycle/volumes.hpp"

namespace berth::volumes {

/// A volume, and the sandboxes that have it.
struct Use {
    Known volume;
    std::vector<std::string> by; ///< ids of those that may run with it, stopped ones too
};

/// Every volume of a state directory.
[[nodiscard]] Result<std::vector<Use>> uses(Store& store, const std::string& data);

/// Conflict while a sandbox has it, Unavailable while somebody makes one that might. With `dry_run` the
/// same answers, and nothing is removed.
[[nodiscard]] Status remove_unused(Store& store, const std::string& data, const Known& volume, bool dry_run);

} // namespace berth::volumes

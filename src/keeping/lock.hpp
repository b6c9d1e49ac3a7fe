#pragma once

#include <chrono>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace berth::keeping {

constexpr std::chrono::milliseconds kLockPatience(10'000);

enum class Use { Shared, Alone };
/// flock(2) with a deadline; false when it is over.
[[nodiscard]] bool lock_within(int fd, Use use, std::chrono::milliseconds patience);

/// True while somebody has the lock of this directory alone. The lock of a killed process ends with the last
/// process that has its descriptors, and a helper of his may be a moment behind: that moment is waited for.
[[nodiscard]] bool being_changed(int directory);

} // namespace berth::keeping

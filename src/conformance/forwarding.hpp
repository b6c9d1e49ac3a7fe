#pragma once

#include <atomic>
#include <memory>

#include "core/backend.hpp"

namespace berth::conformance {

/// A backend that passes on what a lifecycle asks, and cannot be asked what it has while `outage` is true.
[[nodiscard]] std::unique_ptr<Backend> forwarding(std::unique_ptr<Backend> to,
                                                  std::shared_ptr<std::atomic<bool>> outage);

} // namespace berth::conformance

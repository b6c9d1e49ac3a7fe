#pragma once

#include <chrono>
#include <vector>

#include "keeping/keeper_client.hpp"

namespace berth::keeping {

/// Whether every exec has come as far as `state`.
[[nodiscard]] bool all_past(const std::vector<keeper::Item>& items, keeper::State state);

/// Until each exec has come as far as `state`, as the keeper tells it; nothing else knows it better. How far
/// they are when the patience is over is an answer, too.
[[nodiscard]] Result<std::vector<keeper::Item>> await_execs(KeeperClient& keeper, keeper::State state,
                                                            std::chrono::milliseconds patience);

} // namespace berth::keeping

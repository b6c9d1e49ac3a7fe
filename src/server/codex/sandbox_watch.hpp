#pragma once

#include <memory>

#include "server/codex/place.hpp"
#include "server/codex/sandbox_intent.hpp"

namespace berth::codex {

/// Watches of a sandbox's files, by its backend.
[[nodiscard]] std::shared_ptr<Watcher> watch_sandbox(boost::asio::any_io_executor loop, Fire fire,
                                                     Around around);

} // namespace berth::codex

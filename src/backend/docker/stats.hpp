#pragma once

#include "backend/docker/engine.hpp"
#include "base/json.hpp"
#include "core/backend.hpp"

namespace berth::docker {

/// What an engine's document about a container says; what it leaves out is left out.
[[nodiscard]] Usage parse_stats(const json::Value& document);
[[nodiscard]] Result<Usage> ask_usage(const Engine& engine, const std::string& container);

} // namespace berth::docker

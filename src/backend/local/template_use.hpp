#pragma once

#include "backend/local/plan.hpp"

/// Templates that were unpacked are collected when nobody uses them: who does says so here.
namespace berth::local {

/// The names that the cache of templates has for what the layers stand on; the host's own are none of them.
[[nodiscard]] std::vector<std::string> templates_of(const StateDir& state, const RootLayers& layers);

/// Keeps them for as long as the answer lives: for a sandbox that no record names.
[[nodiscard]] Result<std::vector<UniqueFd>> hold_templates(const StateDir& state, const RootLayers& layers);

} // namespace berth::local

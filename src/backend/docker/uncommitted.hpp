#pragma once

#include <string>
#include <vector>

#include "backend/docker/container.hpp"
#include "backend/docker/engine.hpp"

namespace berth::docker {

/// What the engine's commit leaves out without a word: sockets, and every extended attribute but those of
/// capabilities. Found where the engine keeps what was changed, without what lies at `inside`, which is ours;
/// where nobody can look there, that it may be so.
[[nodiscard]] std::vector<std::string> note_uncommitted(const Engine& engine, const Container& container,
                                                        const std::string& inside);

} // namespace berth::docker

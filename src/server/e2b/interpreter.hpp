#pragma once

#include "server/e2b/envd.hpp"

namespace berth::e2b {

/// Where the runner of ours listens in what is made from kInterpreterTemplate.
inline constexpr std::uint16_t kInterpreterPort = 49999;

/// The runner listens when this returns: it is started with the first request for it, and again where it is
/// gone.
Task<Status> ensure_interpreter(gate::Ground& ground, EnvdCall& call);

/// The runner's text; see inside/interpreter.py.
[[nodiscard]] std::string_view interpreter_text() noexcept;

} // namespace berth::e2b

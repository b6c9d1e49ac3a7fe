#pragma once

#include "server/e2b/envd.hpp"

namespace berth::e2b {

/// The template that code interpreters are made from: `base`, and a runner of ours on a port of its own.
inline constexpr std::string_view kInterpreterTemplate = "code-interpreter-v1";
inline constexpr std::uint16_t kInterpreterPort = 49999;

/// The runner listens when this returns: it is started with the first request for it, and again where it is
/// gone.
Task<Status> ensure_interpreter(gate::Ground& ground, EnvdCall& call);

/// The runner's text; see inside/interpreter.py.
[[nodiscard]] std::string_view interpreter_text() noexcept;

} // namespace berth::e2b

#pragma once

#include "server/e2b/envd.hpp"

namespace berth::e2b {

/// Passes a request on to a port of the sandbox and its answer back, unbuffered; also to another protocol.
Task<void> proxy_port(gate::Ground& ground, EnvdCall& call, std::uint16_t port);

} // namespace berth::e2b

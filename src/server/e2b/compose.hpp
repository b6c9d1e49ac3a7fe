#pragma once

#include "server/e2b/envd.hpp"

namespace berth::e2b {

/// envd's POST /files/compose: one file from several, which go.
Task<void> compose(EnvdCall& call, gate::Ground& ground);

} // namespace berth::e2b

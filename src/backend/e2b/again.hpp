#pragma once

#include <chrono>
#include <optional>

#include "http_client/client.hpp"

namespace berth::e2b_client {

/// How often something is asked in all.
inline constexpr int kTries = 4;

/// How long to wait before the next of the tries; nothing: it was acted upon, or asks for more patience than
/// anybody has. Only what says 429 or 503 was certainly not.
[[nodiscard]] std::optional<std::chrono::milliseconds> pause_asked(const http_client::HttpAnswer& answer,
                                                                   int tries);

/// The usual one, longer with each try.
[[nodiscard]] std::chrono::milliseconds usual_pause(int tries);

} // namespace berth::e2b_client

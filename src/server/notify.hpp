#pragma once

#include <string_view>

namespace berth::server {

/// Tells a supervisor that wants to know (NOTIFY_SOCKET, sd_notify(3)): "READY=1", "STOPPING=1". Nobody who
/// listens, and one who does not, are the same.
void notify(std::string_view state);

} // namespace berth::server

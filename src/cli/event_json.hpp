#pragma once

#include <string>

#include "core/exec_event.hpp"

namespace berth::cli {

/// One event of an exec as a line of JSON; bytes are base64, as they are.
[[nodiscard]] std::string event_line(const ExecEvent& event);

} // namespace berth::cli

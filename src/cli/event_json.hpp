#pragma once

#include <string>
#include <string_view>

#include "core/exec_event.hpp"

namespace berth::cli {

/// One event of an exec as a line of JSON; bytes are base64, as they are. `timed_out` is of an exit.
[[nodiscard]] std::string event_line(const ExecEvent& event, bool timed_out);
/// What a person is told of a gap.
[[nodiscard]] std::string missing_words(const ExecEvent& gap);
/// A limit that struck, as the last line after the events.
[[nodiscard]] std::string limit_line(std::string_view message);

} // namespace berth::cli

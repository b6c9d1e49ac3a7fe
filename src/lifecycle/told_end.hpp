#pragma once

#include <string>

#include "lifecycle/lifecycle.hpp"

/// How a command ended, in the words of records, events, logs and answers alike.
namespace berth {

/// "exit 7", "signal 15", "timed out, signal 9", "unknown". One that ended by itself at the last moment did
/// not time out.
[[nodiscard]] std::string told_end(const ExitStatus& status, bool overdue);

/// Whether one that ended with `status` was ended because its time was over: by its keeper, as its log says,
/// or by somebody else, as its record says. False where nobody knows.
[[nodiscard]] Task<bool> timed_out(Lifecycle& lifecycle, SandboxRecord sandbox, std::string exec,
                                   ExitStatus status);

} // namespace berth

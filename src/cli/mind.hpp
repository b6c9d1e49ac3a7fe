#pragma once

#include <string>

namespace berth::cli {

/// Leaves a process of ours behind that kills a command when its time is over: nobody else stays with one
/// that is detached. Where it cannot be started, or is killed, the exec's record has the deadline all the
/// same, for any server and `berth gc`.
void leave_minder(const std::string& data, const std::string& sandbox, const std::string& exec);

} // namespace berth::cli

#pragma once

#include <string_view>

/// Switches that only tests may throw. The program that ships links `hooks_off.cpp`, where every
/// answer is a constant; `berth-hooks`, which only tests run, links `hooks_on.cpp`, which reads
/// the environment. No build of the shipped program can be talked out of a wall.
namespace berth::hooks {

/// BERTH_TEST_KILL=label: the process kills itself with SIGKILL when it reaches that label.
void kill_point(std::string_view label);
/// The same as a question, for labels that are reached in another process.
[[nodiscard]] bool kill_at(std::string_view label);
/// A socket to a process that kills this one when a byte comes over it, and answers once it is
/// dead: a process in a pid namespace below ours can ask, but has no name or pidfd it could signal.
[[nodiscard]] int executioner();

/// BERTH_TEST_WALLS_OFF=a,b: true when the named wall is not to be built.
[[nodiscard]] bool wall_off(std::string_view wall);

/// BERTH_TEST_LACK=a,b: true when the probe shall find that this machine lacks the facility.
[[nodiscard]] bool lacks(std::string_view facility);

/// True only in the program built for tests.
[[nodiscard]] bool available();

} // namespace berth::hooks

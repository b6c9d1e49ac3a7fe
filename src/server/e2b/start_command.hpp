#pragma once

#include "core/record.hpp"
#include "server/e2b/built.hpp"
#include "server/gate/face.hpp"

namespace berth::e2b {

/// A shell for a command of a template's: bash where there is one.
[[nodiscard]] Task<std::vector<std::string>> shell_of(gate::Ground& ground, SandboxRecord sandbox,
                                                      std::string command);

/// Starts a template's start command, and asks its ready command until that succeeds; the start command's
/// exec, or nothing where there is none. DeadlineExceeded: it was not ready in time. A ready command that
/// only sleeps says nothing about the sandbox: it is for the build, `sleeps` false passes over it.
struct StartWish {
    BuildDefaults defaults;
    std::map<std::string, std::string> env; ///< of the sandbox
    std::chrono::nanoseconds patience{0};
    bool sleeps = false;
    std::function<Status(const std::string& exec)> first{}; ///< as in ExecWish, of the start command
};
[[nodiscard]] Task<Result<std::string>> start_and_wait(gate::Ground& ground, SandboxRecord sandbox,
                                                       StartWish wish);

} // namespace berth::e2b

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "sys/step_list.hpp"

namespace berth::bench {

/// A program of the host, started again and again by clone3(VM|VFORK) and reaped: a peer, and,
/// with nothing else asked for, the reference R0.
class Command {
public:
    struct Options {
        std::uint64_t namespaces = 0; ///< CLONE_NEW... of the clone
        int mount_namespace = -1;     ///< entered first; borrowed
        bool quiet = false;           ///< streams to nowhere; what goes to stderr is told when it fails
        /// Somebody else's: what it leaves for the init of the system to reap is no leak of ours.
        bool foreign = false;
    };

    /// `argv[0]` is an absolute path.
    [[nodiscard]] static Result<Command> make(const std::vector<std::string>& argv, const Options& options);

    /// Nanoseconds until it was reaped. Another end than exit code 0 is an error.
    [[nodiscard]] Result<double> time();

private:
    Command() = default;
    sys::StepList steps_;
    std::uint64_t namespaces_ = 0;
    bool foreign_ = false;
    std::string name_;
    UniqueFd complaints_;
};

/// The program of that name in PATH or where administrators' programs are; empty when there is none.
[[nodiscard]] std::string find_program(const std::string& name);

/// The path of the program that runs.
[[nodiscard]] Result<std::string> own_program();

} // namespace berth::bench

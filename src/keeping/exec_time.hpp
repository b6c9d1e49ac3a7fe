#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/unique_fd.hpp"
#include "keeping/keeper_client.hpp"
#include "sys/cgroup_group.hpp"

namespace berth::keeping {

/// What a keeper needs to end a command at its time when nobody else is left to do it: how long its sandbox
/// is paused, and everybody that belongs to the command.
class ExecTime {
public:
    /// `directory` is that of the sandbox, `execs` the group of all its commands and `exec` that of this one;
    /// null: there are none, and the keeper ends the command's process group.
    ExecTime(std::chrono::nanoseconds limit, int directory, const sys::SandboxGroup* execs,
             const sys::SandboxGroup* exec);

    /// Says it in the conversation in which the exec is asked for next. Where that cannot be done the time
    /// is held by whoever of ours lives, as for all other backends: no failure.
    void tell(KeeperClient& keeper, std::uint64_t exec) const;

private:
    std::chrono::nanoseconds limit_;
    bool pausable_, grouped_;
    UniqueFd pauses_, frozen_, kill_;
};

} // namespace berth::keeping

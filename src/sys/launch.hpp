#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "sys/step_list.hpp"

namespace berth::sys {

/// A process that has reached its exec, held by pidfd.
struct Launched {
    pid_t pid = -1;
    UniqueFd pidfd;
};

struct LaunchOptions {
    std::uint64_t namespaces = 0; ///< CLONE_NEW… of the first child
    int cgroup = -1;              ///< directory of a v2 group to be born in; borrowed
    int low_numbers = 4;          ///< descriptor numbers the program gets; no slot may stand there
};

/// Clones a child that carries out block 0 of `list` and returns when it has reached its exec (or
/// has ended): nothing runs beside us until then, and a failed step is an exact error.
///
/// The child shares our memory while we are suspended, so this costs no page-table copy.
/// All signals are blocked meanwhile. Descriptors with numbers that the program gets are moved up first. Not
/// for a process with thousands of descriptors: the table is copied.
[[nodiscard]] Result<Launched> launch(StepList& list, const LaunchOptions& options);

/// A first child with a copy of our memory that nobody may look into, for blocks that go among the processes
/// of a sandbox: those can stop and kill it, and could write to our memory through its own. So nobody waits
/// for it without a deadline, and nothing of ours is held meanwhile.
struct LaunchedApart {
    Launched child;
    UniqueFd report; ///< a memory file: which step failed
};

/// Clones it and returns at once.
[[nodiscard]] Result<LaunchedApart> launch_apart(StepList& list, const LaunchOptions& options);

/// Until it has ended, which it does when the last block has reached its exec. A failed step is an exact
/// error; one that takes longer than `patience` is killed. It is not reaped.
[[nodiscard]] Status await_apart(const LaunchedApart& launched, const StepList& list,
                                 std::chrono::milliseconds patience);

} // namespace berth::sys

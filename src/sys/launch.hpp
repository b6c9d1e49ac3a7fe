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
    /// Zero: the children share our memory. Otherwise they get a copy that nobody may look into, and
    /// this long to end: for blocks that go among processes of a sandbox, which can stop and kill them,
    /// and could otherwise write to our memory through theirs.
    std::chrono::milliseconds apart{};
};

/// Clones a child that carries out block 0 of `list` and returns when it has reached its exec (or
/// has ended): nothing runs beside us until then, and a failed step is an exact error.
///
/// The child shares our memory while we are suspended (but see `apart`), so this costs no page-table copy.
/// All signals are blocked meanwhile. Descriptors with numbers that the program gets are moved up first. Not
/// for a process with thousands of descriptors: the table is copied.
[[nodiscard]] Result<Launched> launch(StepList& list, const LaunchOptions& options);

} // namespace berth::sys

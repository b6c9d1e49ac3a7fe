#pragma once

#include "keeper/sys.hpp"
#include "keeper/wire.hpp"

namespace berth::keeper {

/// One new process: everything it needs, and how far it came. The child shares our memory until
/// its execve, so a Launch must stay where it is until done() says so.
struct Launch {
    const char* cwd; ///< "" leaves the directory
    const char* const* argv;
    const char* const* envp;
    int program;              ///< the program to be executed, or -1: what argv[0] leads to
    bool named;               ///< argv[0] only leads to it: what it is given begins with argv[1]
    int input, output, error; ///< become 0, 1, 2
    bool session;             ///< own session and process group
    bool terminal;            ///< `input` becomes the controlling terminal
    std::uint32_t uid, gid;
    int birth_group;  ///< v2 directory to be born in, or -1
    const int* tasks; ///< v1 `tasks` files to enter
    std::uint32_t task_count;
    u64 open_files, processes, file_size, cpu_seconds; ///< rlimits, or kKeepLimit
    u64 nofile_soft;                                   ///< limit to give back, or kKeepLimit

    Step failed_step; ///< None when the command runs (or was killed on its way)
    int failed_error;

    std::uint32_t alive; ///< the kernel clears it (and wakes its futex) at execve or death
};

/// Starts it: its pid, or a negative errno.
long spawn(Launch& launch);

/// Waits until the child has left our memory, or the time is over. False: it has not yet.
bool wait_for_exec(Launch& launch, u64 timeout_ns);

/// True when the child has left our memory.
bool done(const Launch& launch);

} // namespace berth::keeper

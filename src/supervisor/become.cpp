// What one command with deny patterns is at first. Its launcher is a copy of ours that nobody may look into,
// its supervisor neither; into this everybody may who may look into the command. So what it executes is
// judged like all that is executed after it. It runs under the filter, with what the command has and no more.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "supervisor/supervisor.hpp"

namespace berth::supervisor {

int become(int argc, char** argv, char** environment)
{
    const long count = argc < 4 ? 0 : strtol(argv[1], nullptr, 10);
    if (count < 1 || count > argc - 3) return 125;
    char** const command = argv + 2 + count;
    int error = ENOENT;
    for (long i = 0; i < count; ++i) {
        ::execve(argv[2 + i], command, environment);
        if (errno != ENOENT && errno != ENOTDIR) error = errno;
    }
    dprintf(STDERR_FILENO, "%s: %s\n", command[0], strerrordesc_np(error));
    return error == ENOENT ? 127 : 126;
}

} // namespace berth::supervisor

#include "cli/streams.hpp"

#include <fcntl.h>
#include <unistd.h>

namespace berth::cli {

void hold_closed_streams()
{
    // Whoever reads or writes it gets EBADF, as from a number that is free. Opened in order, each gets its
    // own.
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
        if (::fcntl(fd, F_GETFD) < 0) (void)::open("/dev/null", O_PATH | O_CLOEXEC);
}

bool has_stdin()
{
    const int flags = ::fcntl(STDIN_FILENO, F_GETFL);
    return flags >= 0 && (flags & O_PATH) == 0;
}

} // namespace berth::cli

#include "keeping/pipe.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace berth::keeping {

Result<PipePair> make_pipe()
{
    constexpr int size = 1 << 20;
    int ends[2];
    if (::pipe2(&ends[0], O_CLOEXEC) != 0) return fail_errno("making a pipe");
    PipePair pair{.read = UniqueFd(ends[0]), .write = UniqueFd(ends[1])};
    // An ordinary user gets a bounded number of large pipes; a small one works as well.
    ::fcntl(pair.read.get(), F_SETPIPE_SZ, size);
    // It belongs to us, who are nobody inside; opening /dev/stderr asks for the permissions again.
    if (::fchmod(pair.read.get(), 0666) != 0) return fail_errno("opening a pipe to the sandbox's users");
    return pair;
}

} // namespace berth::keeping

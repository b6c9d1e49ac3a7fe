#include "scripted/spool.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "base/ids.hpp"

namespace berth::scripted {

Result<UniqueFd> nameless_file(int directory)
{
    UniqueFd file(::openat(directory, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (file) return file;
    if (errno != EOPNOTSUPP && errno != EISDIR) return fail_errno("making a temporary file");
    const std::string name = ".spool-" + random_hex(16);
    file.reset(::openat(directory, name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return fail_errno("making a temporary file");
    ::unlinkat(directory, name.c_str(), 0);
    return file;
}

} // namespace berth::scripted

#include "backend/local/uppers.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/unique_fd.hpp"
#include "sys/remove_tree.hpp"

namespace berth::local {

Status make_uppers(int directory)
{
    for (const char* name : {"fs", "fs/u1", "fs/w1", "fs/u2", "fs/w2", "fs/u1/etc"})
        if (::mkdirat(directory, name, 0755) != 0) return fail_errno("creating the layer {}", name);
    const UniqueFd file(
        ::openat(directory, "fs/u1/etc/machine-id", O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0444));
    if (!file) return fail_errno("creating the machine id");
    return write_all(file.get(), random_hex(16) + "\n");
}

Status sync_file_system(int directory)
{
    if (::syncfs(directory) != 0) return fail_errno("syncing the files of a sandbox");
    return {};
}

Status remove_marks(int directory)
{
    for (const char* name : {"fs/w1", "fs/w2"}) {
        const UniqueFd work(::openat(directory, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
        if (!work && errno == ENOENT) continue;
        if (!work) return fail_errno("opening {}", name);
        // The kernel makes it again; what else lies in it are copies that were never finished.
        BERTH_CHECK(sys::remove_tree(work.get(), "work"));
    }
    return {};
}

} // namespace berth::local

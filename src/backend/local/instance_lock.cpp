#include "backend/local/instance_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <thread>

#include "backend/local/shared.hpp"
#include "keeping/native.hpp"

namespace berth::local {

namespace {

using namespace std::chrono_literals;

bool is_still_named(const StateDir& state, const std::string& native, int directory)
{
    struct stat ours{}, named{};
    return ::fstat(directory, &ours) == 0 &&
           ::fstatat(state.fd(), ("sandbox/" + native).c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
           ours.st_ino == named.st_ino && ours.st_dev == named.st_dev;
}

} // namespace

Result<UniqueFd> open_instance(const StateDir& state, const std::string& native)
{
    BERTH_CHECK(check_native(native));
    UniqueFd directory(
        ::openat(state.fd(), ("sandbox/" + native).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!directory && errno == ENOENT) return fail(Code::NotFound, "no sandbox {}", native);
    if (!directory) return fail_errno("opening sandbox {}", native);
    return directory;
}

Result<UniqueFd> lock_instance(const StateDir& state, const std::string& native,
                               std::chrono::milliseconds patience)
{
    BERTH_TRY(auto directory, open_instance(state, native));
    if (!lock_within(directory.get(), Use::Alone, patience))
        return fail(Code::Unavailable,
                    "sandbox {} is being made, started, stopped, snapshotted or removed by somebody else",
                    native);
    // Whoever had it before us may have taken it away.
    if (!is_still_named(state, native, directory.get())) return fail(Code::NotFound, "no sandbox {}", native);
    return directory;
}

Result<UniqueFd> lock_files(int directory, Use use, std::chrono::milliseconds patience)
{
    UniqueFd files(::openat(directory, "fs", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!files && errno == ENOENT) return files;
    if (!files) return fail_errno("opening the files of a sandbox");
    if (lock_within(files.get(), use, patience)) return files;
    return fail(Code::Unavailable, "{}",
                use == Use::Alone ? "somebody moves files into or out of the sandbox"
                                  : "a snapshot of the sandbox is being taken");
}

} // namespace berth::local

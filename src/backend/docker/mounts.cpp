#include "backend/docker/mounts.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <climits>
#include <cstdlib>

#include "base/strings.hpp"
#include "sys/way_down.hpp"

namespace berth::docker {

namespace {

Result<std::string> real_path(const std::string& path)
{
    char buffer[PATH_MAX];
    if (::realpath(path.c_str(), &buffer[0]) == nullptr)
        return fail_errno("mount source {}", printable(path));
    return std::string(&buffer[0]);
}

} // namespace

Status check_mounts(const InstanceDirs& dirs, const SandboxSpec& spec)
{
    const UniqueFd state(::openat(dirs.fd(), "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!state) return fail_errno("opening the state directory");
    BERTH_TRY(const auto state_path, real_path(dirs.path("..")));
    for (const auto& mount : spec.mounts) {
        BERTH_TRY(auto path, real_path(mount.source));
        struct stat st{};
        if (::stat(path.c_str(), &st) == 0 && !S_ISDIR(st.st_mode)) path.resize(path.rfind('/') + 1);
        const UniqueFd source(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
        if (!source) return fail_errno("mount source {}", printable(mount.source));
        BERTH_TRY(const auto within, sys::way_down(state.get(), source.get(), path));
        BERTH_TRY(const auto around, sys::way_down(source.get(), state.get(), state_path));
        if (within || (around && S_ISDIR(st.st_mode)))
            return fail(Code::Denied,
                        "mount source {} would show berth's own state directory {} inside: mount something "
                        "beside it, or use --backend local, which hides it",
                        printable(mount.source), printable(state_path));
    }
    return {};
}

} // namespace berth::docker

#include "backend/local/state_dir.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cstdlib>

#include "base/io.hpp"

namespace berth::local {

namespace {

constexpr const char* kParts[] = {"mnt", "template", "sandbox", "layer", "trash", "ids", "limited"};

const char* variable(const char* name)
{
    const char* value = std::getenv(name); // NOLINT(concurrency-mt-unsafe): read once, at start
    return value != nullptr && *value != '\0' ? value : nullptr;
}

} // namespace

Result<StateDir> StateDir::open(const std::string& path)
{
    if (path.empty() || path.front() != '/')
        return fail(Code::Invalid, "state directory '{}' is not an absolute path", path);
    UniqueFd dir(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!dir && errno == ENOENT) {
        const auto slash = path.rfind('/');
        if (slash > 0) BERTH_CHECK(make_dirs(path.substr(0, slash), 0755));
        if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
            return fail_errno("creating state directory {}", path);
        dir.reset(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    }
    if (!dir) return fail_errno("opening state directory {}", path);
    struct stat st{};
    if (::fstat(dir.get(), &st) != 0) return fail_errno("looking at state directory {}", path);
    if (st.st_uid != ::geteuid())
        return fail(Code::Denied, "state directory {} belongs to user {}: use --data DIR for one of your own",
                    path, st.st_uid);
    if ((st.st_mode & 0077) != 0)
        return fail(Code::Denied, "state directory {} is open to others (mode {:04o}): chmod 700 {}", path,
                    st.st_mode & 07777, path);
    for (const char* part : kParts) {
        if (::mkdirat(dir.get(), part, 0700) == 0 || errno == EEXIST) continue;
        return fail_errno("creating {}/{}", path, part);
    }
    UniqueFd limited(::openat(dir.get(), "limited", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!limited) return fail_errno("opening {}/limited", path);
    return StateDir(path, std::move(dir), std::move(limited));
}

Result<UniqueFd> StateDir::id_leases() const
{
    if (::geteuid() == 0) {
        constexpr const char* shared = "/run/berth";
        if (::mkdir(shared, 0700) == 0 || errno == EEXIST) {
            UniqueFd dir(::open(shared, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
            struct stat st{};
            if (dir && ::fstat(dir.get(), &st) == 0 && st.st_uid == 0 && (st.st_mode & 0022) == 0) return dir;
        }
    }
    UniqueFd dir(::openat(dir_.get(), "ids", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!dir) return fail_errno("opening {}/ids", path_);
    return dir;
}

Result<std::string> default_state_path()
{
    if (const char* data = variable("BERTH_DATA")) return std::string(data);
    if (::geteuid() == 0) return std::string("/var/lib/berth");
    if (const char* state = variable("XDG_STATE_HOME"); state != nullptr && *state == '/')
        return std::string(state) + "/berth";
    if (const char* home = variable("HOME"); home != nullptr && *home == '/')
        return std::string(home) + "/.local/state/berth";
    return fail(Code::Invalid, "no place for the state directory: HOME is not set; use --data DIR");
}

} // namespace berth::local

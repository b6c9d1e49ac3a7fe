#include "backend/local/strays.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "backend/local/keeper_process.hpp"
#include "backend/local/shared.hpp"
#include "base/io.hpp"
#include "base/strings.hpp"
#include "keeping/native.hpp"

namespace berth::local {

namespace {

constexpr Bytes kLongest = 4_KiB;

/// Of a process that is the first of a namespace of its own, as keepers are: the second of its arguments.
std::string second_argument(const std::string& pid)
{
    const auto line = read_file(fmt::format("/proc/{}/cmdline", pid), kLongest);
    if (!line || !line->starts_with(std::string_view("k\0", 2))) return {};
    const auto status = read_file(fmt::format("/proc/{}/status", pid), 64_KiB);
    const auto at = status ? status->find("\nNSpid:") : std::string::npos;
    if (at == std::string::npos) return {};
    const auto ids = status->substr(at + 1, status->find('\n', at + 1) - at - 1);
    if (!ids.ends_with("\t1") || ids == "NSpid:\t1") return {};
    const auto begin = line->find('\0') + 1;
    return line->substr(begin, line->find('\0', begin) - begin);
}

} // namespace

Result<std::string> keeper_mark(const StateDir& state, const std::string& native)
{
    struct stat st{};
    if (::fstat(state.fd(), &st) != 0) return fail_errno("looking at {}", state.path());
    return fmt::format("{:x}.{:x}/{}", st.st_dev, st.st_ino, native);
}

Result<std::vector<std::string>> end_strays(const StateDir& state, bool dry_run)
{
    BERTH_TRY(const auto ours, keeper_mark(state, {}));
    const UniqueFd proc(::open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!proc) return fail_errno("opening /proc");
    BERTH_TRY(const auto names, list_names(proc.get()));
    std::vector<std::string> out;
    for (const auto& name : names) {
        if (name.find_first_not_of("0123456789") != std::string::npos) continue;
        // The descriptor first: what is read of the number then is of the process that is killed.
        const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, std::stoi(name), 0)));
        if (!pidfd) continue;
        const auto mark = second_argument(name);
        if (!mark.starts_with(ours) || !is_native(mark.substr(ours.size()))) continue;
        const auto native = mark.substr(ours.size());
        if (::faccessat(state.fd(), ("sandbox/" + native).c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
            errno != ENOENT)
            continue;
        out.push_back("keeper of " + native);
        if (!dry_run) BERTH_CHECK(end_keeper(pidfd.get()));
    }
    return out;
}

} // namespace berth::local

#include "sys/sandbox_files_resolve.hpp"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/io.hpp"
#include "base/strings.hpp"

namespace berth::sys {
namespace {

/// A rename anywhere below the root while ".." is resolved makes openat2 answer EAGAIN.
constexpr int kMaxTries = 128;

constexpr std::array<std::uint32_t, 14> kKernelInterfaces{
    PROC_SUPER_MAGIC,    SYSFS_MAGIC,
    DEVPTS_SUPER_MAGIC,  CGROUP_SUPER_MAGIC,
    CGROUP2_SUPER_MAGIC, DEBUGFS_MAGIC,
    TRACEFS_MAGIC,       SECURITYFS_MAGIC,
    BPF_FS_MAGIC,        BINFMTFS_MAGIC,
    EFIVARFS_MAGIC,      PSTOREFS_MAGIC,
    NSFS_MAGIC,          0x62656570 /* configfs */,
};

/// All devtmpfs mounts are one file system, and statfs shows it as tmpfs: known by its number.
std::optional<dev_t> devtmpfs()
{
    static const std::optional<dev_t> found = []() -> std::optional<dev_t> {
        const auto mounts = read_file("/proc/self/mountinfo", 16_MiB);
        if (!mounts) return std::nullopt;
        for (const auto& line : split(*mounts, '\n')) {
            if (line.find(" - devtmpfs ") == std::string::npos) continue;
            const auto fields = split(line, ' ');
            const auto numbers = split(fields.size() > 2 ? fields[2] : "", ':');
            if (numbers.size() != 2) continue;
            const auto major = parse_int(numbers[0], 0, 1 << 20, "device");
            const auto minor = parse_int(numbers[1], 0, 1 << 20, "device");
            if (major && minor) return makedev(static_cast<unsigned>(*major), static_cast<unsigned>(*minor));
        }
        return std::nullopt;
    }();
    return found;
}

Status refuse_kernel_interface(int object, const std::string& path)
{
    struct statfs fs{};
    struct stat st{};
    if (::fstatfs(object, &fs) != 0 || ::fstat(object, &st) != 0)
        return fail_errno("looking at {}", printable(path));
    const auto type = static_cast<std::uint32_t>(fs.f_type);
    if (std::ranges::find(kKernelInterfaces, type) != kKernelInterfaces.end() || devtmpfs() == st.st_dev)
        return fail(Code::Denied, "{} is an interface of the kernel, not a file of the sandbox",
                    printable(path));
    return {};
}

} // namespace

Result<UniqueFd> resolve_in(int root, const std::string& path, int flags)
{
    if (path.empty()) return fail(Code::Invalid, "the path is empty");
    if (path.find('\0') != std::string::npos)
        return fail(Code::Invalid, "{} has a NUL in it", printable(path));
    const open_how how{.flags = static_cast<std::uint64_t>(O_PATH | O_CLOEXEC | flags),
                       .mode = 0,
                       .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
    UniqueFd object;
    for (int tries = 0; tries < kMaxTries; ++tries) {
        object.reset(static_cast<int>(::syscall(SYS_openat2, root, path.c_str(), &how, sizeof how)));
        if (object || errno != EAGAIN) break;
    }
    if (!object) {
        if (errno == EAGAIN) return fail(Code::Unavailable, "{} keeps being renamed", printable(path));
        return fail_errno("opening {}", printable(path));
    }
    BERTH_CHECK(refuse_kernel_interface(object.get(), path));
    return object;
}

std::string last_component(const std::string& path)
{
    const auto end = path.find_last_not_of('/');
    if (end == std::string::npos) return "/";
    const auto slash = path.find_last_of('/', end);
    const auto start = slash == std::string::npos ? 0 : slash + 1;
    return path.substr(start, end - start + 1);
}

Result<Place> resolve_place(int root, const std::string& path)
{
    std::string name = last_component(path);
    if (path.empty() || name == "/" || name == "." || name == "..")
        return fail(Code::Invalid, "'{}' does not end in a name", printable(path));
    const std::string above = path.substr(0, path.find_last_not_of('/') + 1 - name.size());
    BERTH_TRY(auto directory, resolve_in(root, above.empty() ? "." : above, O_DIRECTORY));
    if (name.find('\0') != std::string::npos)
        return fail(Code::Invalid, "{} has a NUL in it", printable(path));
    return Place{.directory = std::move(directory), .name = std::move(name)};
}

Result<UniqueFd> open_regular(int object, int flags, const std::string& path)
{
    struct stat st{};
    if (::fstat(object, &st) != 0) return fail_errno("looking at {}", printable(path));
    if (S_ISDIR(st.st_mode)) return fail(Code::Invalid, "{} is a directory", printable(path));
    if (!S_ISREG(st.st_mode)) return fail(Code::Invalid, "{} is not a regular file", printable(path));
    // The magic link of our own descriptor leads to exactly the object that was judged, and the
    // permission check is made now, with the credentials of this thread.
    const std::string link = fmt::format("/proc/thread-self/fd/{}", object);
    UniqueFd file(::open(link.c_str(), flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (!file) return fail_errno("opening {}", printable(path));
    return file;
}

} // namespace berth::sys

#include "sys/probe.hpp"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "base/hooks.hpp"
#include "base/unique_fd.hpp"
#include "sys/landlock.hpp"
#include "sys/launch.hpp"
#include "sys/userns.hpp"

namespace berth::sys {

namespace {

std::string words_of(int err) { return std::error_code(err, std::generic_category()).message(); }

/// A call that is there answers anything but ENOSYS to nonsense.
Probed call(const char* name, long number)
{
    const bool there = ::syscall(number, -1, nullptr, 0, nullptr, 0) >= 0 || errno != ENOSYS;
    return {.name = name, .available = there, .detail = there ? "there" : words_of(ENOSYS)};
}

Probed kernel()
{
    utsname name{};
    ::uname(&name);
    return {.name = "kernel", .available = true, .detail = std::string("Linux ") + &name.release[0]};
}

Probed landlock_abi()
{
    const int abi = hooks::lacks("landlock") ? 0 : landlock::abi();
    return {.name = "landlock",
            .available = abi > 0,
            .detail = abi > 0 ? fmt::format("ABI {}", abi) : "not there"};
}

Probed user_namespaces()
{
    // Nothing is mapped: an ordinary user's maps are written by the sandbox itself.
    const auto made = UserNamespace::make({}, {});
    const bool can = made.has_value() && !hooks::lacks("user-namespaces");
    return {.name = "user namespaces",
            .available = can,
            .detail = can    ? "can be made"
                      : made ? "not here"
                             : made.error().message};
}

Probed seccomp()
{
    const std::uint32_t action = SECCOMP_RET_ERRNO;
    const bool there = ::syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
    return {.name = "seccomp", .available = there, .detail = there ? "filters" : words_of(errno)};
}

/// A launch that mounts an overlay of two tmpfs directories and runs nothing: the trial of what
/// every sandbox does first. Everything is in a mount namespace that ends with it.
Probed overlay(bool root)
{
    StepList list;
    if (!root) {
        list.say("writing the id maps");
        list.write_file("/proc/self/setgroups", "deny");
        list.write_file("/proc/self/uid_map", fmt::format("1000 {} 1", ::geteuid()));
        list.write_file("/proc/self/gid_map", fmt::format("1000 {} 1", ::getegid()));
    }
    list.say("mounting a tmpfs");
    list.make_private();
    list.mount("tmpfs", "/tmp", "tmpfs", 0, "size=1m");
    list.chdir("/tmp");
    for (const char* name : {"l", "u", "w", "m"}) list.mkdir(name, 0755);
    list.say("mounting an overlay");
    list.mount("overlay", "m", "overlay", 0,
               std::string("lowerdir=l,upperdir=u,workdir=w,volatile") + (root ? "" : ",userxattr"));
    list.check_writable("m");
    list.say("running /bin/true");
    list.exec_path({"/bin/true", "/usr/bin/true"}, {"true"}, {});
    const std::uint64_t namespaces = CLONE_NEWNS | (root ? 0 : CLONE_NEWUSER);
    auto launched = launch(list, {.namespaces = namespaces});
    if (!launched || hooks::lacks("overlay"))
        return {.name = "overlay",
                .available = false,
                .detail = launched ? "not here" : launched.error().message};
    while (::waitid(P_PIDFD, static_cast<id_t>(launched->pidfd.get()), nullptr, WEXITED) < 0 &&
           errno == EINTR) {
    }
    return {
        .name = "overlay", .available = true, .detail = root ? "volatile" : "volatile, in a user namespace"};
}

} // namespace

std::vector<Probed> probe()
{
    std::vector<Probed> all{kernel()};
    all.push_back(call("clone3", SYS_clone3));
    all.push_back(call("pidfd_open", SYS_pidfd_open));
    all.push_back(call("openat2", SYS_openat2));
    all.push_back(call("mount_setattr", SYS_mount_setattr));
    all.push_back(call("close_range", SYS_close_range));
    all.push_back(seccomp());
    all.push_back(landlock_abi());
    all.push_back(user_namespaces());
    all.push_back(overlay(::geteuid() == 0));
    return all;
}

const Probed* find(const std::vector<Probed>& all, const std::string& name)
{
    for (const auto& one : all)
        if (one.name == name) return &one;
    return nullptr;
}

} // namespace berth::sys

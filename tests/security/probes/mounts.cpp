// Attempts on the mount tree and on namespaces.

#include <fcntl.h>
#include <linux/mount.h>
#include <linux/sched.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <map>

#include "probe.hpp"

// <sys/mount.h> and <linux/mount.h> do not go together; these two are all that is needed of it.
extern "C" int mount(const char*, const char*, const char*, unsigned long, const void*) noexcept;
extern "C" int umount2(const char*, int) noexcept;

namespace probe {
namespace {

unsigned long namespace_flag(const std::string& name)
{
    static const std::map<std::string, unsigned long> flags{
        {"user", CLONE_NEWUSER}, {"mount", CLONE_NEWNS},      {"pid", CLONE_NEWPID},
        {"net", CLONE_NEWNET},   {"ipc", CLONE_NEWIPC},       {"uts", CLONE_NEWUTS},
        {"time", CLONE_NEWTIME}, {"cgroup", CLONE_NEWCGROUP}, {"user+mount", CLONE_NEWUSER | CLONE_NEWNS},
    };
    return flags.at(name);
}

int mount_fs(const Words& w)
{
    return outcome(::mount(w.at(0).c_str(), w.at(1).c_str(), w.at(0).c_str(), 0, nullptr));
}
int bind(const Words& w)
{
    return outcome(::mount(w.at(0).c_str(), w.at(1).c_str(), nullptr, MS_BIND, nullptr));
}
int remount_writable(const Words& w)
{
    return outcome(::mount(nullptr, w.at(0).c_str(), nullptr, MS_REMOUNT | MS_BIND, nullptr));
}
int unmount(const Words& w) { return outcome(::umount2(w.at(0).c_str(), 2 /* MNT_DETACH */)); }
int pivot(const Words&) { return outcome(::syscall(SYS_pivot_root, ".", ".")); }
int change_root(const Words& w) { return outcome(::chroot(w.at(0).c_str())); }
int fs_open(const Words& w) { return outcome(::syscall(SYS_fsopen, w.at(0).c_str(), 0)); }
int fs_pick(const Words& w) { return outcome(::syscall(SYS_fspick, AT_FDCWD, w.at(0).c_str(), 0)); }
int open_tree(const Words& w)
{
    return outcome(::syscall(SYS_open_tree, AT_FDCWD, w.at(0).c_str(), OPEN_TREE_CLONE));
}
int move_mount(const Words& w)
{
    return outcome(::syscall(SYS_move_mount, AT_FDCWD, w.at(0).c_str(), AT_FDCWD, w.at(1).c_str(), 0));
}
int mount_setattr(const Words& w)
{
    mount_attr attr{.attr_set = 0, .attr_clr = MOUNT_ATTR_RDONLY, .propagation = 0, .userns_fd = 0};
    return outcome(::syscall(SYS_mount_setattr, AT_FDCWD, w.at(0).c_str(), 0, &attr, sizeof attr));
}

int unshare(const Words& w) { return outcome(::unshare(static_cast<int>(namespace_flag(w.at(0))))); }

int reap(long pid)
{
    if (pid < 0) return errno;
    if (pid == 0) ::_exit(0);
    ::waitpid(static_cast<pid_t>(pid), nullptr, 0);
    return 0;
}

int clone(const Words& w)
{
    const unsigned long flags = w.empty() ? 0 : namespace_flag(w.at(0));
    return reap(::syscall(SYS_clone, flags | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
}

int clone3(const Words& w)
{
    clone_args args{};
    args.flags = namespace_flag(w.at(0));
    args.exit_signal = SIGCHLD;
    return reap(::syscall(SYS_clone3, &args, sizeof args));
}

int enter(const Words& w)
{
    const int fd = ::open(w.at(0).c_str(), O_RDONLY);
    return fd < 0 ? errno : outcome(::setns(fd, 0));
}

constexpr Entry kEntries[] = {
    {"mount", mount_fs},
    {"bind", bind},
    {"remount", remount_writable},
    {"unmount", unmount},
    {"pivot-root", pivot},
    {"chroot", change_root},
    {"fsopen", fs_open},
    {"fspick", fs_pick},
    {"open-tree", open_tree},
    {"move-mount", move_mount},
    {"mount-setattr", mount_setattr},
    {"unshare", unshare},
    {"clone", clone},
    {"clone3", clone3},
    {"setns", enter},
};

} // namespace

std::span<const Entry> mount_probes() { return kEntries; }

} // namespace probe

// The child half of a launch: carries out a list of steps between clone and exec.
//
// It protects everything: each wall of a sandbox is put up here, in the order the list gives. It
// runs in a process that shares its (suspended) parent's memory, so it makes raw system calls only:
// no allocation, no errno, no locks, no library. Built without sanitizers for the same reason.
// It relies on the list, which only our own program builds; nothing in it comes from a sandbox.

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>

#include <cerrno>
#include <csignal>

#include "sys/netns_beside.hpp"
#include "sys/raw_syscall.hpp"
#include "sys/step.hpp"

namespace berth::sys {

namespace {

// <sys/mount.h> cannot be included beside <linux/mount.h> of the same release.
constexpr long kMsRec = 16384;
constexpr long kMsPrivate = 1 << 18;
constexpr long kMntDetach = 2;
constexpr unsigned kStRdonly = 1;
constexpr long kWaitKillable = 1 << 5; // SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV: 5.19
constexpr std::uint64_t kMaxSent = 24; // descriptors in one message, as many as a keeper takes

struct Runner {
    StepImage& image;
    unsigned depth;

    [[nodiscard]] const char* text(const Step& s, int i) const noexcept
    {
        return s.text[i] == 0 ? nullptr : image.arena + s.text[i];
    }
    [[nodiscard]] long slot(std::int32_t i) const noexcept { return i < 0 ? AT_FDCWD : image.slots[i]; }

    long one(const Step& s) noexcept;
    long pivot() noexcept;
    long enter_beside(const Step& s) noexcept;
    long set_rlimit(const Step& s) noexcept;
    long set_fs_ids(const Step& s) noexcept;
    long set_ids(const Step& s) noexcept;
    long drop_caps(const Step& s) noexcept;
    long death_signal(const Step& s) noexcept;
    long open_beneath(const Step& s) noexcept;
    long cover_tree(const Step& s) noexcept;
    long cover(const Step& s) noexcept;
    long make_beneath(const Step& s) noexcept;
    long landlock_path(const Step& s) noexcept;
    long check_writable(const Step& s) noexcept;
    long send(const Step& s) noexcept;
    long clone(const Step& s) noexcept;
    long exec_path(const Step& s) noexcept;
};

long close_fd(long fd) noexcept { return raw(SYS_close, fd); }

long write_file(const char* path, const char* bytes, std::uint64_t size) noexcept
{
    const long fd = raw(SYS_open, arg(path), O_WRONLY | O_CLOEXEC);
    if (fd < 0) return fd;
    const long n = raw(SYS_write, fd, arg(bytes), static_cast<long>(size));
    close_fd(fd);
    return n < 0 ? n : n == static_cast<long>(size) ? 0 : -EIO;
}

long make_file(const char* path, const char* bytes, const Step& s) noexcept
{
    const long fd = raw(SYS_open, arg(path), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW,
                        static_cast<long>(s.a));
    if (fd < 0) return fd;
    const long n = raw(SYS_write, fd, arg(bytes), static_cast<long>(s.size));
    const long owned = s.b == ~0ull ? 0 : raw(SYS_fchown, fd, static_cast<long>(s.b), static_cast<long>(s.c));
    close_fd(fd);
    return n < 0 ? n : n != static_cast<long>(s.size) ? -EIO : owned;
}

long Runner::pivot() noexcept
{
    static const char here[] = ".";
    static const char top[] = "/";
    if (const long r = raw(SYS_pivot_root, arg(here), arg(here)); r < 0) return r;
    if (const long r = raw(SYS_umount2, arg(here), kMntDetach); r < 0) return r;
    return raw(SYS_chdir, arg(top));
}

/// The maker's death is an answer, too: nothing else would end the wait.
long Runner::enter_beside(const Step& s) noexcept
{
    pollfd either[2]{{.fd = image.slots[s.fd2], .events = POLLIN, .revents = 0},
                     {.fd = image.slots[s.fd], .events = POLLIN, .revents = 0}};
    if (const long r = raw(SYS_poll, arg(&either[0]), 2, -1); r < 0) return r;
    if (either[0].revents == 0) return -ECHILD;
    std::uint64_t told = 0;
    if (const long n = raw(SYS_read, either[0].fd, arg(&told), sizeof told); n < 0) return n;
    if (told != 1) return 1 - static_cast<long>(told);
    return raw(SYS_setns, either[1].fd, CLONE_NEWNET);
}

long Runner::set_rlimit(const Step& s) noexcept
{
    rlimit64 now{};
    if (const long r = raw(SYS_prlimit64, 0, static_cast<long>(s.a), 0, arg(&now)); r < 0) return r;
    // Lowering always works; raising the hard limit needs CAP_SYS_RESOURCE, so it is clamped.
    const std::uint64_t value = s.b < now.rlim_max ? s.b : now.rlim_max;
    rlimit64 wanted{.rlim_cur = value, .rlim_max = s.c != 0 ? now.rlim_max : value};
    return raw(SYS_prlimit64, 0, static_cast<long>(s.a), arg(&wanted));
}

long Runner::set_fs_ids(const Step& s) noexcept
{
    // setfsuid to a non-zero id clears the file capabilities of the effective set; they are put
    // back, because the ids are changed for what is *recorded*, not for what is allowed.
    __user_cap_header_struct head{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    __user_cap_data_struct data[2]{};
    if (const long r = raw(SYS_capget, arg(&head), arg(&data[0])); r < 0) return r;
    raw(SYS_setfsgid, static_cast<long>(s.b));
    raw(SYS_setfsuid, static_cast<long>(s.a));
    // The calls answer the previous id and never fail openly: ask again with an invalid id.
    if (raw(SYS_setfsuid, -1) != static_cast<long>(s.a) || raw(SYS_setfsgid, -1) != static_cast<long>(s.b))
        return -EPERM;
    return raw(SYS_capset, arg(&head), arg(&data[0]));
}

long Runner::set_ids(const Step& s) noexcept
{
    if (s.c != 0)
        if (const long r = raw(SYS_setgroups, 0, 0); r < 0) return r;
    const auto gid = static_cast<long>(s.b);
    const auto uid = static_cast<long>(s.a);
    if (const long r = raw(SYS_setresgid, gid, gid, gid); r < 0) return r;
    return raw(SYS_setresuid, uid, uid, uid);
}

long Runner::drop_caps(const Step& s) noexcept
{
    for (int cap = 0; cap < 64; ++cap) {
        if ((s.a >> cap & 1) != 0) continue;
        const long r = raw(SYS_prctl, PR_CAPBSET_DROP, cap);
        if (r == -EINVAL) break; // past the last capability this kernel knows
        if (r < 0) return r;
    }
    raw(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL);
    __user_cap_header_struct head{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    const auto low = static_cast<std::uint32_t>(s.b);
    const auto high = static_cast<std::uint32_t>(s.b >> 32);
    __user_cap_data_struct data[2]{
        {.effective = low, .permitted = low, .inheritable = static_cast<std::uint32_t>(s.c)},
        {.effective = high, .permitted = high, .inheritable = static_cast<std::uint32_t>(s.c >> 32)}};
    if (const long r = raw(SYS_capset, arg(&head), arg(&data[0])); r < 0) return r;
    for (int cap = 0; cap < 64; ++cap)
        if ((s.c >> cap & 1) != 0)
            if (const long r = raw(SYS_prctl, PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap); r < 0) return r;
    return 0;
}

long Runner::death_signal(const Step& s) noexcept
{
    if (const long r = raw(SYS_prctl, PR_SET_PDEATHSIG, static_cast<long>(s.a)); r < 0) return r;
    // The parent may have died before the call above; getppid cannot tell across a pid namespace.
    pollfd parent{.fd = image.slots[s.fd], .events = POLLIN, .revents = 0};
    if (const long r = raw(SYS_poll, arg(&parent), 1, 0); r != 0) return r < 0 ? r : -ESRCH;
    return 0;
}

long Runner::open_beneath(const Step& s) noexcept
{
    open_how how{.flags = s.a, .mode = 0, .resolve = s.b};
    return raw(SYS_openat2, slot(s.fd), arg(text(s, 0)), arg(&how), sizeof how);
}

long open_place(const char* path) noexcept
{
    open_how how{
        .flags = O_PATH | O_CLOEXEC, .mode = 0, .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    return raw(SYS_openat2, AT_FDCWD, arg(path), arg(&how), sizeof how);
}

bool is_missing(long r) noexcept { return r == -ENOENT || r == -ENOTDIR; }

/// 1: a directory, 0: anything else.
long is_directory(long fd) noexcept
{
    struct stat st{};
    if (const long r = raw(SYS_fstat, fd, arg(&st)); r < 0) return r;
    return S_ISDIR(st.st_mode) ? 1 : 0;
}

long Runner::cover_tree(const Step& s) noexcept
{
    if (const long place = open_place(text(s, 1)); place >= 0) {
        const long kind = is_directory(place);
        close_fd(place);
        if (kind < 0) return kind;
        if (kind != static_cast<long>(s.a)) return -ENOTDIR;
    } else if (!is_missing(place)) {
        return place;
    }
    return raw(SYS_open_tree, AT_FDCWD, arg(text(s, 0)), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
}

long Runner::cover(const Step& s) noexcept
{
    const long place = open_place(text(s, 0));
    if (place < 0) return is_missing(place) ? 0 : place;
    const long kind = is_directory(place);
    if (kind < 0) return kind;
    const int tree = image.slots[kind == 1 ? s.fd : s.fd2];
    if (tree < 0) return -ESTALE;
    const long r =
        raw(SYS_move_mount, tree, arg(""), place, arg(""), MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
    close_fd(place);
    return r;
}

/// Creates a relative path part by part, following no symlink: the tree it is made in may come
/// from a template somebody else wrote, and we still stand outside of it with the host's root.
long Runner::make_beneath(const Step& s) noexcept
{
    const char* path = text(s, 0);
    bool leaf_is_file = s.b == static_cast<std::uint64_t>(Leaf::File);
    if (s.b == static_cast<std::uint64_t>(Leaf::SameAs)) {
        struct stat st{};
        if (const long r = raw(SYS_fstat, slot(s.fd2), arg(&st)); r < 0) return r;
        leaf_is_file = !S_ISDIR(st.st_mode);
    }
    char part[256];
    long dir = raw(SYS_openat, slot(s.fd), arg("."), O_PATH | O_DIRECTORY | O_CLOEXEC);
    while (dir >= 0) {
        unsigned n = 0;
        while (path[n] != 0 && path[n] != '/') {
            if (n + 1 >= sizeof part) return -ENAMETOOLONG;
            part[n] = path[n];
            ++n;
        }
        part[n] = 0;
        const bool last = path[n] == 0;
        const bool file = last && leaf_is_file;
        if (file) {
            const long made = raw(SYS_openat, dir, arg(&part[0]),
                                  O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0644);
            if (made >= 0)
                close_fd(made);
            else if (made != -EEXIST)
                return made;
        } else if (const long r = raw(SYS_mkdirat, dir, arg(&part[0]), static_cast<long>(s.a));
                   r < 0 && r != -EEXIST) {
            return r;
        }
        open_how how{};
        how.flags = static_cast<std::uint64_t>(O_PATH | O_CLOEXEC | O_NOFOLLOW | (file ? 0 : O_DIRECTORY));
        how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
        const long next = raw(SYS_openat2, dir, arg(&part[0]), arg(&how), sizeof how);
        close_fd(dir);
        if (last) return next;
        dir = next;
        path += n + 1;
    }
    return dir;
}

long Runner::landlock_path(const Step& s) noexcept
{
    const long dir = raw(SYS_open, arg(text(s, 0)), O_PATH | O_CLOEXEC);
    if (dir < 0) return dir;
    landlock_path_beneath_attr rule{};
    // Rights of directories are refused on a file.
    constexpr std::uint64_t of_files = 0b1100'0000'0000'0111; // execute, write, read, truncate, device ioctl
    struct stat st{};
    if (const long r = raw(SYS_fstat, dir, arg(&st)); r < 0) return r;
    rule.allowed_access = S_ISDIR(st.st_mode) ? s.a : s.a & of_files;
    rule.parent_fd = static_cast<int>(dir);
    const long r = raw(SYS_landlock_add_rule, image.slots[s.fd], LANDLOCK_RULE_PATH_BENEATH, arg(&rule), 0);
    close_fd(dir);
    return r;
}

/// An overlay whose mounter cannot write its work directory comes up read-only without an error.
long Runner::check_writable(const Step& s) noexcept
{
    struct statfs fs{};
    if (const long r = raw(SYS_statfs, arg(text(s, 0)), arg(&fs)); r < 0) return r;
    return (static_cast<unsigned>(fs.f_flags) & kStRdonly) != 0 ? -EROFS : 0;
}

long Runner::send(const Step& s) noexcept
{
    char message[256];
    if (s.size > sizeof message || s.b > kMaxSent) return -EMSGSIZE;
    for (std::uint64_t i = 0; i < s.size; ++i) message[i] = text(s, 0)[i];
    if (s.a != ~0ull) {
        const auto pid = static_cast<std::int32_t>(raw(SYS_getpid));
        for (unsigned i = 0; i < sizeof pid; ++i)
            message[s.a + i] = static_cast<char>(static_cast<std::uint32_t>(pid) >> (8 * i));
    }
    alignas(cmsghdr) char control[CMSG_SPACE(kMaxSent * sizeof(int))]{};
    iovec io{.iov_base = &message[0], .iov_len = s.size};
    msghdr head{};
    head.msg_iov = &io;
    head.msg_iovlen = 1;
    head.msg_control = &control[0];
    head.msg_controllen = CMSG_SPACE(s.b * sizeof(int));
    auto* rights = reinterpret_cast<cmsghdr*>(&control[0]);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(s.b * sizeof(int));
    auto* fds = reinterpret_cast<int*>(CMSG_DATA(rights));
    const auto* from = reinterpret_cast<const std::int32_t*>(text(s, 1));
    for (std::uint64_t i = 0; i < s.b; ++i) fds[i] = image.slots[from[i]];
    const long n = raw(SYS_sendmsg, slot(s.fd), arg(&head), MSG_NOSIGNAL);
    return n < 0 ? n : 0;
}

struct CloneStart {
    StepImage* image;
    std::uint32_t block;
    unsigned depth;
};

int clone_entry(void* start)
{
    const auto* s = static_cast<const CloneStart*>(start);
    return run_block(*s->image, s->block, s->depth);
}

long Runner::clone(const Step& s) noexcept
{
    if (depth + 1 >= 3) return -E2BIG;
    CloneStart start{.image = &image, .block = static_cast<std::uint32_t>(s.b), .depth = depth + 1};
    int pidfd = -1;
    CloneArgs args{};
    args.flags = s.a | CLONE_VM | CLONE_VFORK | (s.out >= 0 ? CLONE_PIDFD : 0);
    args.exit_signal = s.c;
    args.pidfd = static_cast<std::uint64_t>(arg(&pidfd));
    args.stack = static_cast<std::uint64_t>(arg(image.stack_top[depth + 1])) - image.stack_size;
    args.stack_size = image.stack_size;
    const long pid = berth_clone3(&args, sizeof args, clone_entry, &start);
    if (pid < 0) return pid;
    if (image.error != 0) return -ECHILD; // the child has named its own step already
    return s.out >= 0 ? pidfd : 0;
}

long Runner::exec_path(const Step& s) noexcept
{
    long answer = -ENOENT;
    for (char* const* path = image.vectors[s.c]; *path != nullptr; ++path) {
        const long r = raw(SYS_execve, arg(*path), arg(image.vectors[s.a]), arg(image.vectors[s.b]));
        if (r != -ENOENT && r != -ENOTDIR) answer = r;
    }
    return answer;
}

long Runner::one(const Step& s) noexcept
{
    switch (s.op) {
    case Op::WriteFd: {
        const long n = raw(SYS_write, slot(s.fd), arg(text(s, 0)), static_cast<long>(s.size));
        return n < 0 ? n : 0;
    }
    case Op::WriteFile: return write_file(text(s, 0), text(s, 1), s.size);
    case Op::SetNamespace: return raw(SYS_setns, slot(s.fd), static_cast<long>(s.a));
    case Op::EnterBeside: return enter_beside(s);
    case Op::MakePrivate: return raw(SYS_mount, 0, arg("/"), 0, kMsRec | kMsPrivate, 0);
    case Op::Mount:
        return raw(SYS_mount, arg(text(s, 0)), arg(text(s, 1)), arg(text(s, 2)), static_cast<long>(s.a),
                   arg(text(s, 3)));
    case Op::FsOpen: return raw(SYS_fsopen, arg(text(s, 0)), FSOPEN_CLOEXEC);
    case Op::FsString:
        return raw(SYS_fsconfig, slot(s.fd), FSCONFIG_SET_STRING, arg(text(s, 0)), arg(text(s, 1)), 0);
    case Op::FsFlag: return raw(SYS_fsconfig, slot(s.fd), FSCONFIG_SET_FLAG, arg(text(s, 0)), 0, 0);
    case Op::FsMount:
        if (const long r = raw(SYS_fsconfig, slot(s.fd), FSCONFIG_CMD_CREATE, 0, 0, 0); r < 0) return r;
        return raw(SYS_fsmount, slot(s.fd), FSMOUNT_CLOEXEC, static_cast<long>(s.a));
    case Op::OpenTree: {
        const char* path = text(s, 0);
        const long flags = static_cast<long>(s.a) | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC;
        return path == nullptr ? raw(SYS_open_tree, slot(s.fd), arg(""), flags | AT_EMPTY_PATH)
                               : raw(SYS_open_tree, slot(s.fd), arg(path), flags);
    }
    case Op::MountAttr: {
        mount_attr attr{.attr_set = s.a, .attr_clr = s.b, .propagation = 0, .userns_fd = 0};
        if (s.fd2 >= 0) {
            attr.attr_set |= MOUNT_ATTR_IDMAP;
            attr.userns_fd = static_cast<std::uint64_t>(image.slots[s.fd2]);
        }
        return raw(SYS_mount_setattr, slot(s.fd), arg(""), AT_EMPTY_PATH | static_cast<long>(s.c), arg(&attr),
                   sizeof attr);
    }
    case Op::MountAttrPath: {
        mount_attr attr{.attr_set = s.a, .attr_clr = s.b, .propagation = 0, .userns_fd = 0};
        return raw(SYS_mount_setattr, AT_FDCWD, arg(text(s, 0)), static_cast<long>(s.c), arg(&attr),
                   sizeof attr);
    }
    case Op::MoveMount:
        if (s.fd2 >= 0)
            return raw(SYS_move_mount, slot(s.fd), arg(""), slot(s.fd2), arg(""),
                       MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH);
        return raw(SYS_move_mount, slot(s.fd), arg(""), AT_FDCWD, arg(text(s, 0)), MOVE_MOUNT_F_EMPTY_PATH);
    case Op::CoverTree: return cover_tree(s);
    case Op::Cover: return cover(s);
    case Op::OpenBeneath: return open_beneath(s);
    case Op::MakeBeneath: return make_beneath(s);
    case Op::Close: return close_fd(slot(s.fd));
    case Op::Chdir: return s.fd >= 0 ? raw(SYS_fchdir, slot(s.fd)) : raw(SYS_chdir, arg(text(s, 0)));
    case Op::Unmount: return raw(SYS_umount2, arg(text(s, 0)), kMntDetach);
    case Op::PivotRoot: return pivot();
    case Op::Hostname: return raw(SYS_sethostname, arg(text(s, 0)), static_cast<long>(s.size));
    case Op::LoopbackUp: return raise_loopback();
    case Op::Rlimit: return set_rlimit(s);
    case Op::Umask: return raw(SYS_umask, static_cast<long>(s.a)) < 0 ? -EINVAL : 0;
    case Op::NewSession: {
        const long r = raw(SYS_setsid);
        return r < 0 ? r : 0;
    }
    case Op::FsIds: return set_fs_ids(s);
    case Op::Ids: return set_ids(s);
    case Op::DropCaps: return drop_caps(s);
    case Op::DeathSignal: return death_signal(s);
    case Op::NoNewPrivs: return raw(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1);
    case Op::LandlockCreate: {
        struct {
            std::uint64_t fs, net, scoped; // grows with the ABI; zero fields are known to every one
        } rules{.fs = s.a, .net = s.b, .scoped = s.c};
        const long size = s.c != 0 ? 24 : s.b != 0 ? 16 : 8;
        return raw(SYS_landlock_create_ruleset, arg(&rules), size, 0);
    }
    case Op::LandlockPath: return landlock_path(s);
    case Op::LandlockApply: return raw(SYS_landlock_restrict_self, slot(s.fd), 0);
    case Op::Seccomp: {
        sock_fprog program{.len = static_cast<unsigned short>(s.size / sizeof(sock_filter)),
                           .filter =
                               const_cast<sock_filter*>(reinterpret_cast<const sock_filter*>(text(s, 0)))};
        const long flags = s.out < 0 ? 0 : SECCOMP_FILTER_FLAG_NEW_LISTENER | kWaitKillable;
        return raw(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, arg(&program));
    }
    case Op::Mkdir: {
        if (const long r = raw(SYS_mkdir, arg(text(s, 0)), static_cast<long>(s.a)); r < 0) return r;
        if (s.b == ~0ull) return 0;
        return raw(SYS_chown, arg(text(s, 0)), static_cast<long>(s.b), static_cast<long>(s.c));
    }
    case Op::MakeFile: return make_file(text(s, 0), text(s, 1), s);
    case Op::Symlink: return raw(SYS_symlink, arg(text(s, 0)), arg(text(s, 1)));
    case Op::MakeNode: {
        const long r = raw(SYS_mknod, arg(text(s, 0)), static_cast<long>(s.a), static_cast<long>(s.b));
        return r < 0 ? r : 0;
    }
    case Op::CheckWritable: return check_writable(s);
    case Op::Dup: {
        // dup3 refuses equal numbers; the launcher keeps every slot above the targets.
        const long r = raw(SYS_dup3, slot(s.fd), static_cast<long>(s.a), 0);
        return r < 0 ? r : 0;
    }
    case Op::CloseOnExec:
        return raw(SYS_close_range, static_cast<long>(s.a), ~0u, 4 /* CLOSE_RANGE_CLOEXEC */);
    case Op::Send: return send(s);
    case Op::Clone: return clone(s);
    case Op::WaitChild: {
        int status = 0;
        long pid = 0;
        do pid = raw(SYS_wait4, -1, arg(&status), 0x40000000 /* __WALL */, 0);
        while (pid == -EINTR);
        return pid < 0 ? pid : status != 0 ? -ECHILD : 0;
    }
    case Op::ClearSignals: {
        const std::uint64_t none = 0;
        return raw(SYS_rt_sigprocmask, 2 /* SIG_SETMASK */, arg(&none), 0, sizeof none);
    }
    case Op::ControlTerminal: return raw(SYS_ioctl, slot(s.fd), 0x540e /* TIOCSCTTY */, 0);
    case Op::Ask: {
        char byte = 0;
        if (const long n = raw(SYS_write, slot(s.fd), arg(&byte), 1); n < 0) return n;
        return raw(SYS_read, slot(s.fd), arg(&byte), 1);
    }
    case Op::Exec:
        return raw(SYS_execveat, slot(s.fd), arg(""), arg(image.vectors[s.a]), arg(image.vectors[s.b]),
                   AT_EMPTY_PATH);
    case Op::ExecPath: return exec_path(s);
    }
    return -ENOSYS;
}

bool tolerated(const Step& step, long r) noexcept
{
    const bool missing = r == -ENOENT || r == -ENOTDIR || r == -EBADF;
    if (step.tolerate == kMissing) return missing;
    if (step.tolerate == kOutOfReach) return missing || r == -EACCES;
    return r == -step.tolerate;
}

} // namespace

int run_block(StepImage& image, std::uint32_t block, unsigned depth) noexcept
{
    Runner runner{.image = image, .depth = depth};
    const Block& list = image.blocks[block];
    for (std::uint32_t i = list.first; i < list.first + list.count; ++i) {
        const Step& step = image.steps[i];
        const long r = runner.one(step);
        if (r < 0 && !tolerated(step, r)) {
            if (image.error == 0) {
                image.failed_step = static_cast<std::int32_t>(i);
                image.error = static_cast<std::int32_t>(-r);
            }
            return 125;
        }
        if (step.out >= 0) image.slots[step.out] = r < 0 ? -1 : static_cast<int>(r);
    }
    return 0;
}

} // namespace berth::sys

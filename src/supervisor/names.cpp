// Making, moving and removing names. What is denied keeps its name, and no name that is denied comes to be.
// All of it happens here, one after the other, so no name changes between a look and what follows.
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "supervisor/supervisor.hpp"

namespace berth::supervisor {

namespace {

long spot_of(const Call& call, int dirfd, std::uint64_t address, Spot& out)
{
    char path[PATH_MAX];
    Fd base;
    if (const long r = read_text(call, address, path); r < 0) return r;
    if (path[0] == 0) return -ENOENT;
    if (const long r = read_base(call, dirfd, path, base); r < 0) return r;
    if (spelled_denied(base.get(), path)) return refuse();
    if (const long r = resolve_spot(call, base.get(), path, out); r < 0) return r;
    return out.is_denied() ? refuse() : 0;
}

long outcome(long r) { return r < 0 ? -errno : r; }

bool is_directory(const Spot& spot)
{
    struct stat st{};
    return ::fstatat(spot.parent.fd.get(), spot.name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

/// A directory takes what lies in it along: nothing may come out from under a pattern that way. "Another file
/// system" makes whoever moves copy, file by file.
bool may_move(const Spot& from, const Spot& to)
{
    return !is_directory(from) || keeps_denied(from.real, to.real);
}

long rename_it(const Call& call, int from_dir, std::uint64_t from_path, int to_dir, std::uint64_t to_path,
               unsigned flags)
{
    if ((flags & RENAME_WHITEOUT) != 0) return -EINVAL;
    Spot from;
    Spot to;
    if (const long r = spot_of(call, from_dir, from_path, from); r < 0) return r;
    if (const long r = spot_of(call, to_dir, to_path, to); r < 0) return r;
    if (!may_move(from, to) || ((flags & RENAME_EXCHANGE) != 0 && !may_move(to, from))) return -EXDEV;
    return outcome(
        ::syscall(SYS_renameat2, from.parent.fd.get(), from.name, to.parent.fd.get(), to.name, flags));
}

long link_it(const Call& call, int from_dir, std::uint64_t from_path, int to_dir, std::uint64_t to_path,
             int flags)
{
    if ((flags & ~(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH)) != 0) return -EINVAL;
    char path[PATH_MAX];
    Fd base;
    if (const long r = read_text(call, from_path, path); r < 0) return r;
    if (path[0] == 0) return -ENOENT; // of a descriptor only who may read everything
    if (const long r = read_base(call, from_dir, path, base); r < 0) return r;
    Object object;
    const Last last = (flags & AT_SYMLINK_FOLLOW) != 0 ? Last::Follow : Last::Keep;
    if (const long r = resolve(call, base.get(), path, last, object); r < 0) return r;
    if (object.is_denied() || spelled_denied(base.get(), path)) return refuse();
    Spot to;
    if (const long r = spot_of(call, to_dir, to_path, to); r < 0) return r;
    return outcome(
        ::linkat(AT_FDCWD, Link(object.fd.get()).text, to.parent.fd.get(), to.name, AT_SYMLINK_FOLLOW));
}

long symlink_it(const Call& call, std::uint64_t text, int dirfd, std::uint64_t path)
{
    char target[PATH_MAX];
    if (const long r = read_text(call, text, target); r < 0) return r;
    Spot to;
    if (const long r = spot_of(call, dirfd, path, to); r < 0) return r;
    return outcome(::symlinkat(target, to.parent.fd.get(), to.name));
}

long make_directory(const Call& call, int dirfd, std::uint64_t path, unsigned mode)
{
    Spot spot;
    if (const long r = spot_of(call, dirfd, path, spot); r < 0) return r;
    if (const long r = take_umask(call); r < 0) return r;
    return outcome(::mkdirat(spot.parent.fd.get(), spot.name, mode));
}

long make_node(const Call& call, int dirfd, std::uint64_t path, unsigned mode, std::uint64_t device)
{
    Spot spot;
    if (const long r = spot_of(call, dirfd, path, spot); r < 0) return r;
    if (const long r = take_umask(call); r < 0) return r;
    return outcome(::mknodat(spot.parent.fd.get(), spot.name, mode, device));
}

long remove_it(const Call& call, int dirfd, std::uint64_t path, int flags)
{
    Spot spot;
    if (const long r = spot_of(call, dirfd, path, spot); r < 0) return r;
    return outcome(::unlinkat(spot.parent.fd.get(), spot.name, flags));
}

} // namespace

long change_names(const Call& call)
{
    const auto number = call.asked->data.nr;
    const auto a = [&](unsigned i) { return call.arg(i); };
    const auto w = [&](unsigned i) { return call.word(i); };
    const auto mode = [&](unsigned i) { return static_cast<unsigned>(call.word(i)); };
    switch (number) {
    case SYS_rename: return rename_it(call, AT_FDCWD, a(0), AT_FDCWD, a(1), 0);
    case SYS_renameat: return rename_it(call, w(0), a(1), w(2), a(3), 0);
    case SYS_renameat2: return rename_it(call, w(0), a(1), w(2), a(3), mode(4));
    case SYS_link: return link_it(call, AT_FDCWD, a(0), AT_FDCWD, a(1), 0);
    case SYS_linkat: return link_it(call, w(0), a(1), w(2), a(3), w(4));
    case SYS_symlink: return symlink_it(call, a(0), AT_FDCWD, a(1));
    case SYS_symlinkat: return symlink_it(call, a(0), w(1), a(2));
    case SYS_mkdir: return make_directory(call, AT_FDCWD, a(0), mode(1));
    case SYS_mkdirat: return make_directory(call, w(0), a(1), mode(2));
    case SYS_mknod: return make_node(call, AT_FDCWD, a(0), mode(1), a(2));
    case SYS_mknodat: return make_node(call, w(0), a(1), mode(2), a(3));
    case SYS_unlink: return remove_it(call, AT_FDCWD, a(0), 0);
    case SYS_rmdir: return remove_it(call, AT_FDCWD, a(0), AT_REMOVEDIR);
    case SYS_unlinkat: return remove_it(call, w(0), a(1), w(2));
    default: return -ENOSYS;
    }
}

} // namespace berth::supervisor

// Host directories shown inside. They protect the host's other files and other users' files: a
// source is opened once, checked, and only ever used by descriptor; a target follows no symlink of
// the template; a clone gets its attributes before it is attached, so nothing is ever visible with
// more rights; a writable one maps exactly one owner.

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <cstdlib>

#include "backend/local/plan.hpp"
#include "base/scope_exit.hpp"
#include "base/strings.hpp"
#include "sys/userns.hpp"

namespace berth::local {

namespace {

constexpr std::uint64_t kNoLinks = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;

/// Opens what `path` names now, following no symlink on the second look: what is opened is what
/// was resolved, or nothing.
Status open_source(const std::string& path, Bind& bind)
{
    char* resolved = ::realpath(path.c_str(), nullptr);
    if (resolved == nullptr) return fail_errno("mount source {}", printable(path));
    bind.path = resolved;
    ::free(resolved); // NOLINT(cppcoreguidelines-no-malloc): realpath allocated it
    open_how how{};
    how.flags = O_PATH | O_CLOEXEC | O_NOFOLLOW;
    how.resolve = kNoLinks;
    bind.source.reset(
        static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, bind.path.c_str(), &how, sizeof how)));
    if (!bind.source) return fail_errno("mount source {}", printable(path));
    struct stat st{};
    if (::fstat(bind.source.get(), &st) != 0) return fail_errno("looking at {}", printable(path));
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
        return fail(Code::Invalid, "mount source {} is neither a directory nor a file", printable(path));
    bind.file = S_ISREG(st.st_mode);
    return {};
}

std::uint64_t attributes_of(const Bind& bind)
{
    return MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
           (bind.mode == Mount::Mode::ReadWrite ? 0 : MOUNT_ATTR_RDONLY);
}

/// The clone, made and restricted here, where the source's mount namespace is ours. With mapped
/// ids its owner is the default user inside and everybody else nobody.
Status clone_source(Bind& bind, const Identity& identity, const Account& user)
{
    bind.tree.reset(static_cast<int>(::syscall(SYS_open_tree, bind.source.get(), "",
                                               OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH)));
    if (!bind.tree) return fail_errno("cloning {}", printable(bind.path));
    struct mount_attr attr{};
    attr.attr_set = attributes_of(bind);
    sys::UserNamespace map;
    struct stat st{};
    if (::fstat(bind.source.get(), &st) != 0) return fail_errno("looking at {}", printable(bind.path));
    if (identity.mode == IdMode::Plain && bind.mode == Mount::Mode::ReadWrite && st.st_uid != user.uid)
        return fail(
            Code::Unsupported,
            "{} belongs to user {} and ids cannot be mapped here, so user {} inside could not write it: "
            "use --user {}, or mount it :ro or :copy",
            printable(bind.path), st.st_uid, user.uid, st.st_uid);
    if (identity.mode == IdMode::Mapped) {
        BERTH_TRY(map, sys::UserNamespace::make({{st.st_uid, identity.outside(user.uid), 1}},
                                                {{st.st_gid, identity.outside(user.gid), 1}}));
        attr.attr_set |= MOUNT_ATTR_IDMAP;
        attr.userns_fd = static_cast<std::uint64_t>(map.get());
    }
    if (::syscall(SYS_mount_setattr, bind.tree.get(), "", AT_EMPTY_PATH, &attr, sizeof attr) == 0) return {};
    if (identity.mode != IdMode::Mapped || (errno != EINVAL && errno != EOPNOTSUPP))
        return fail_errno("restricting the mount of {}", printable(bind.path));
    if (bind.mode == Mount::Mode::ReadWrite)
        return fail(Code::Unsupported,
                    "the file system of {} cannot be mapped to the sandbox's ids, so it cannot be writable "
                    "inside: mount it :ro or :copy",
                    printable(bind.path));
    attr.attr_set &= ~std::uint64_t{MOUNT_ATTR_IDMAP};
    attr.userns_fd = 0;
    if (::syscall(SYS_mount_setattr, bind.tree.get(), "", AT_EMPTY_PATH, &attr, sizeof attr) != 0)
        return fail_errno("restricting the mount of {}", printable(bind.path));
    return {};
}

} // namespace

Result<std::vector<Bind>> open_sources(const SandboxSpec& spec)
{
    std::vector<Bind> binds;
    for (const Mount& mount : spec.mounts) {
        Bind bind{.target = mount.target, .mode = mount.mode, .workspace = mount.workspace};
        BERTH_CHECK(open_source(mount.source, bind));
        if (bind.file && bind.mode == Mount::Mode::Copy)
            return fail(Code::Unsupported, "mount source {} is a file: only a directory can be a copy",
                        printable(mount.source));
        binds.push_back(std::move(bind));
    }
    return binds;
}

Result<std::vector<Bind>> open_binds(const SandboxSpec& spec, const Identity& identity, const Account& user)
{
    BERTH_TRY(auto binds, open_sources(spec));
    if (identity.mode == IdMode::Own) return binds;
    for (Bind& bind : binds) BERTH_CHECK(clone_source(bind, identity, user));
    return binds;
}

void add_binds(sys::StepList& list, const Plan& plan, sys::Slot parent)
{
    if (plan.binds.empty()) return;
    const Identity& identity = *plan.identity;
    int copies = 0;
    for (const Bind& bind : plan.binds) {
        stage(list, parent, fmt::format("mounting {}", bind.target));
        sys::Slot tree;
        if (bind.tree) {
            tree = list.borrow(bind.tree.get());
        } else {
            const auto source = list.open_beneath({}, bind.path, O_PATH | O_CLOEXEC, kNoLinks);
            tree = list.open_tree(source);
            list.mount_attr(tree, attributes_of(bind));
            list.close(source);
        }

        // What is made on the way belongs to root inside, not to the host's root.
        if (identity.mode == IdMode::Mapped) list.fs_ids(identity.outside(0), identity.outside(0));
        const std::string_view below = std::string_view(bind.target).substr(1);
        const auto target =
            bind.file ? list.make_file_beneath({}, below) : list.make_dirs_beneath({}, below, 0755);
        if (identity.mode == IdMode::Mapped) list.fs_ids(0, 0);

        if (bind.mode == Mount::Mode::Copy) {
            const std::string n = fmt::format("c{}", copies++);
            const std::string lower = "../" + n;
            list.mkdir(lower, 0755);
            list.move_mount(tree, lower);
            const std::uint64_t owner = identity.mode == IdMode::Own ? ~0ull : identity.outside(kUserId);
            for (const char* part : {"u", "w"})
                list.mkdir_owned(fmt::format("{}{}", lower, part), 0755, owner, owner);
            std::string options = fmt::format("lowerdir={0},upperdir={0}u,workdir={0}w", lower);
            if (identity.mode == IdMode::Own) options += ",userxattr";
            list.mount("overlay", below, "overlay", MS_NOSUID | MS_NODEV, options);
            list.check_writable(below);
        } else {
            list.move_mount(tree, target);
        }
        list.close(target);
        list.close(tree);
    }
}

} // namespace berth::local

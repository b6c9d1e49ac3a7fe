// Host directories shown inside. They protect the host's other files and other users' files: a
// source is opened once, checked, and only ever used by descriptor; a target follows no symlink of
// the template; a clone gets its attributes before it is attached, so nothing is ever visible with
// more rights; a writable one maps exactly one owner.

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <climits>
#include <cstdlib>
#include <set>

#include "backend/local/copy_layers.hpp"
#include "backend/local/plan.hpp"
#include "base/scope_exit.hpp"
#include "base/strings.hpp"
#include "keeping/protect.hpp"
#include "sys/userns.hpp"
#include "sys/way_down.hpp"

namespace berth::local {

namespace {

constexpr std::uint64_t kNoLinks = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;

void show(keeping::MountSource source, Bind& bind)
{
    bind.path = source.pin.path;
    bind.pin = std::move(source.pin);
    bind.file = source.file;
    bind.source = std::move(source.fd);
}

std::uint64_t attributes_of(const Bind& bind)
{
    return MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV |
           (bind.mode == Mount::Mode::ReadWrite ? 0 : MOUNT_ATTR_RDONLY);
}

/// Files in a volume have the sandbox's own ids on disk, set-id bits included: no other user of the host
/// may be able to reach them. A directory above must be closed; the volume's own mode is the sandbox's.
Status check_closed(const Bind& bind)
{
    UniqueFd at(::fcntl(bind.source.get(), F_DUPFD_CLOEXEC, 0));
    struct stat below{};
    if (!at || ::fstat(at.get(), &below) != 0) return fail_errno("looking at {}", printable(bind.path));
    for (;;) {
        at = UniqueFd(::openat(at.get(), "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
        struct stat above{};
        if (!at || ::fstat(at.get(), &above) != 0)
            return fail_errno("looking above {}", printable(bind.path));
        if ((above.st_mode & 0011) == 0 && (above.st_uid == ::geteuid() || above.st_uid == 0)) return {};
        if (above.st_ino == below.st_ino && above.st_dev == below.st_dev) break;
        below = above;
    }
    return fail(Code::Denied,
                "volume directory {} can be reached by other users: keep it below a directory of mode 0700",
                printable(bind.path));
}

/// A volume as it was made, empty and ours, belongs to the user of the first sandbox that mounts it.
Status give_new_volume(const Bind& bind, const Account& user)
{
    const UniqueFd dir(::openat(bind.source.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct stat st{};
    if (!dir || ::fstat(dir.get(), &st) != 0) return fail_errno("opening volume {}", printable(bind.path));
    if (st.st_uid != ::geteuid() || has_content(dir.get())) return {};
    if (::fchown(dir.get(), user.uid, user.gid) != 0 || ::fchmod(dir.get(), 0755) != 0)
        return fail_errno("giving volume {} to its user", printable(bind.path));
    return {};
}

/// The clone, made and restricted here, where the source's mount namespace is ours. With mapped ids the
/// owner of a mount is the default user inside and everybody else nobody; a volume has all the ids of the
/// sandbox, as its layers do.
Status clone_source(Bind& bind, const Identity& identity, const Account& user)
{
    bind.tree.reset(static_cast<int>(::syscall(SYS_open_tree, bind.source.get(), "",
                                               OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH)));
    if (!bind.tree) return fail_errno("cloning {}", printable(bind.path));
    struct mount_attr attr{};
    attr.attr_set = attributes_of(bind);
    // Else what is mounted on it inside would show on the host, and what the host mounts later inside.
    attr.propagation = MS_PRIVATE;
    sys::UserNamespace map;
    struct stat st{};
    if (::fstat(bind.source.get(), &st) != 0) return fail_errno("looking at {}", printable(bind.path));
    if (identity.mode == IdMode::Plain && bind.mode == Mount::Mode::ReadWrite && !bind.volume &&
        st.st_uid != user.uid)
        return fail(
            Code::Unsupported,
            "{} belongs to user {} and ids cannot be mapped here, so user {} inside could not write it: "
            "use --user {}, or mount it :ro or :copy",
            printable(bind.path), st.st_uid, user.uid, st.st_uid);
    if (identity.mode == IdMode::Mapped) {
        if (!bind.volume) {
            BERTH_TRY(map, sys::UserNamespace::make({{st.st_uid, identity.outside(user.uid), 1}},
                                                    {{st.st_gid, identity.outside(user.gid), 1}}));
        }
        attr.attr_set |= MOUNT_ATTR_IDMAP;
        attr.userns_fd = static_cast<std::uint64_t>(bind.volume ? identity.user_namespace.get() : map.get());
    }
    if (::syscall(SYS_mount_setattr, bind.tree.get(), "", AT_EMPTY_PATH, &attr, sizeof attr) == 0) return {};
    if (identity.mode != IdMode::Mapped || (errno != EINVAL && errno != EOPNOTSUPP))
        return fail_errno("restricting the mount of {}", printable(bind.path));
    if (bind.volume)
        return fail(Code::Unsupported,
                    "the file system of {} cannot be mapped to the sandbox's ids, so no volume can lie on it",
                    printable(bind.path));
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

/// Keepers listen in the state directory, and take whoever has the right id for their owner; the store lies
/// there, too. No mount may show it.
Status find_state(std::vector<Bind>& binds, const StateDir& state)
{
    char buffer[PATH_MAX];
    if (::realpath(state.path().c_str(), &buffer[0]) == nullptr)
        return fail_errno("state directory {}", state.path());
    const std::string real(&buffer[0]);
    for (Bind& bind : binds) {
        if (bind.volume) continue;
        // A file has no way up of its own.
        const std::string place = bind.file ? bind.path.substr(0, bind.path.rfind('/') + 1) : bind.path;
        open_how how{};
        how.flags = O_PATH | O_DIRECTORY | O_CLOEXEC;
        how.resolve = kNoLinks;
        const UniqueFd above(
            bind.file ? static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, place.c_str(), &how, sizeof how))
                      : ::fcntl(bind.source.get(), F_DUPFD_CLOEXEC, 0));
        if (!above) return fail_errno("looking above {}", printable(bind.path));
        BERTH_TRY(const auto below, sys::way_down(state.fd(), above.get(), place));
        if (below)
            return fail(Code::Denied, "mount source {} lies in berth's own state directory {}",
                        printable(bind.path), printable(real));
        BERTH_TRY(auto inside, sys::way_down(bind.source.get(), state.fd(), real));
        if (inside) bind.hide = *std::move(inside);
    }
    return {};
}

/// An empty directory over the state directory, where a mount shows it.
void hide_state(sys::StepList& list, const Bind& bind)
{
    if (bind.hide.empty()) return;
    const auto fs = list.fs_open("tmpfs");
    list.fs_string(fs, "mode", "0");
    list.fs_string(fs, "size", "4k");
    const auto tree =
        list.fs_mount(fs, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
    list.close(fs);
    const std::string place = bind.target.substr(1) + "/" + bind.hide;
    // Not there: it lies on another file system, which is not shown or covered.
    const auto target =
        list.open_beneath({}, place, O_PATH | O_DIRECTORY | O_CLOEXEC, kNoLinks, sys::kMissing);
    list.move_mount(tree, target, sys::kMissing);
    list.close(target, sys::kMissing);
    list.close(tree);
}

/// The topmost directory at or above `path` that others may not enter; empty when there is none.
std::string closed_above(const std::string& path)
{
    for (auto slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
        const std::string place = path.substr(0, slash);
        struct stat st{};
        if (::lstat(place.c_str(), &st) != 0 || !S_ISDIR(st.st_mode)) return {};
        if ((st.st_mode & 0001) == 0) return place;
        if (slash == std::string::npos) return {};
    }
}

/// In a live view with mapped ids every file of the host is a stranger's. Below a directory that is closed to
/// others nothing could be reached, not even a mount; so an empty directory takes its place, which hides
/// nothing that could be seen. The home of the host's root, too: a shell that may not look for its own files
/// there complains at each start.
void open_the_way(sys::StepList& list, const Plan& plan)
{
    std::set<std::string> closed{closed_above("/root")};
    for (const Bind& bind : plan.binds) {
        const auto slash = bind.target.rfind('/');
        if (slash > 0) closed.insert(closed_above(bind.target.substr(0, slash)));
    }
    for (const auto& place : closed)
        if (!place.empty())
            list.mount("tmpfs", place.substr(1), "tmpfs", MS_NOSUID | MS_NODEV, "size=256k,mode=0755",
                       ENOENT);
}

/// An ordinary user's clone is one of everything.
Status find_submounts(Bind& bind)
{
    if (bind.file) return {};
    BERTH_TRY(bind.covered, submounts_of(bind.path));
    if (bind.covered.empty() || bind.mode != Mount::Mode::Copy) return {};
    return fail(Code::Unsupported,
                "{}/{} is mounted in it: an ordinary user's sandbox cannot have a copy of {}; unmount it, or "
                "mount it :ro",
                printable(bind.path), printable(bind.covered.front().below), printable(bind.path));
}

/// The directories of a copy, as options of its overlay. What is written lies where the sandbox's other files
/// lie: with those that are kept on the disk (copy_layers.hpp), else beside it and gone with it.
std::string copy_directories(sys::StepList& list, const Plan& plan, const Bind& bind,
                             const std::string& lower, int n)
{
    if (plan.durable_upper.empty()) {
        const Identity& identity = *plan.identity;
        const std::uint64_t owner = identity.mode == IdMode::Own ? ~0ull : identity.outside(kUserId);
        for (const char* part : {"u", "w"})
            list.mkdir_owned(fmt::format("{}{}", lower, part), 0755, owner, owner);
        return fmt::format("lowerdir={0},upperdir={0}u,workdir={0}w", lower);
    }
    const std::string part = copy_part(bind);
    std::string lowers;
    int i = 0;
    for (const auto& layer : copy_stack(plan, part)) {
        // Short names: all options of a mount are one page.
        const std::string link = fmt::format("../v{}.{}", n, i++);
        list.symlink(fmt::format("s/{}/{}", layer, part), link);
        lowers += link + ":";
    }
    return fmt::format("lowerdir={}{},upperdir=../i/{},workdir=../i/w{}", lowers, lower, part, part);
}

void add_copy(sys::StepList& list, const Plan& plan, const Bind& bind, sys::Slot tree, int n)
{
    const std::string lower = fmt::format("../c{}", n);
    list.mkdir(lower, 0755);
    list.move_mount(tree, lower);
    const std::string options = copy_directories(list, plan, bind, lower, n) + overlay_flags(plan);
    // As with the root: what the kernel makes in the work directory must have an id on the disk.
    const Identity& identity = *plan.identity;
    const bool as_mapped_root = identity.mode == IdMode::Mapped && !plan.durable_upper.empty();
    if (as_mapped_root) list.fs_ids(identity.outside(0), identity.outside(0));
    const std::string_view below = std::string_view(bind.target).substr(1);
    list.mount("overlay", below, "overlay", MS_NOSUID | MS_NODEV, options);
    list.check_writable(below);
    if (as_mapped_root) list.fs_ids(0, 0);
}

} // namespace

Result<std::vector<Bind>> open_sources(const SandboxSpec& spec, const StateDir& state, const Pins* pins)
{
    std::vector<keeping::MountSource> sources;
    for (const Mount& mount : spec.mounts) {
        BERTH_TRY(auto source, pins != nullptr ? keeping::open_pinned(mount, pins->at(sources.size()))
                                               : keeping::open_source(mount.source));
        BERTH_CHECK(keeping::refuse_engines(source, {}));
        sources.push_back(std::move(source));
    }
    BERTH_CHECK(keeping::check_points(spec, sources));
    std::vector<Bind> binds;
    for (const Mount& mount : spec.mounts) {
        Bind bind{.target = mount.target, .mode = mount.mode, .workspace = mount.workspace};
        show(std::move(sources[binds.size()]), bind);
        if (bind.file && bind.mode == Mount::Mode::Copy)
            return fail(Code::Unsupported, "mount source {} is a file: only a directory can be a copy",
                        printable(mount.source));
        binds.push_back(std::move(bind));
    }
    for (const Volume& volume : spec.volumes) {
        Bind bind{.target = volume.target,
                  .mode = volume.writable ? Mount::Mode::ReadWrite : Mount::Mode::ReadOnly,
                  .volume = true};
        if (volume.source.empty())
            return fail(Code::Invalid, "volume '{}' has no directory on this machine",
                        printable(volume.name));
        BERTH_TRY(auto source, keeping::open_source(volume.source));
        show(std::move(source), bind);
        if (bind.file) return fail(Code::Invalid, "volume directory {} is a file", printable(volume.source));
        binds.push_back(std::move(bind));
    }
    BERTH_CHECK(find_state(binds, state));
    return binds;
}

Result<std::vector<Bind>> open_binds(const SandboxSpec& spec, const StateDir& state, const Identity& identity,
                                     const Account& user, const Pins* pins)
{
    BERTH_TRY(auto binds, open_sources(spec, state, pins));
    for (const Bind& bind : binds)
        if (bind.volume) BERTH_CHECK(check_closed(bind));
    if (identity.mode == IdMode::Own) {
        for (Bind& bind : binds) BERTH_CHECK(find_submounts(bind));
        return binds;
    }
    for (const Bind& bind : binds)
        if (bind.volume) BERTH_CHECK(give_new_volume(bind, user));
    for (Bind& bind : binds) BERTH_CHECK(clone_source(bind, identity, user));
    return binds;
}

void add_binds(sys::StepList& list, const Plan& plan, sys::Slot parent)
{
    const Identity& identity = *plan.identity;
    if (plan.layers.kind == Template::Kind::Live && identity.mode == IdMode::Mapped) open_the_way(list, plan);
    if (plan.binds.empty()) return;
    int copies = 0;
    for (const Bind& bind : plan.binds) {
        stage(list, parent, fmt::format("mounting {}", bind.target));
        sys::Slot tree;
        if (bind.tree) {
            tree = list.borrow(bind.tree.get());
        } else {
            const auto source = list.open_beneath({}, bind.path, O_PATH | O_CLOEXEC, kNoLinks);
            // With what is mounted in it, which is covered below.
            tree = list.open_tree(source, AT_RECURSIVE);
            list.mount_attr(tree, attributes_of(bind), {}, AT_RECURSIVE);
            list.close(source);
        }

        // What is made on the way belongs to root inside, not to the host's root.
        if (identity.mode == IdMode::Mapped) list.fs_ids(identity.outside(0), identity.outside(0));
        const std::string_view below = std::string_view(bind.target).substr(1);
        const auto target =
            bind.file ? list.make_file_beneath({}, below) : list.make_dirs_beneath({}, below, 0755);
        if (identity.mode == IdMode::Mapped) list.fs_ids(0, 0);

        if (bind.mode == Mount::Mode::Copy)
            add_copy(list, plan, bind, tree, copies++);
        else
            list.move_mount(tree, target);
        list.close(target);
        list.close(tree);
        cover(list, bind.covered, bind.target.substr(1));
        hide_state(list, bind);
    }
}

} // namespace berth::local

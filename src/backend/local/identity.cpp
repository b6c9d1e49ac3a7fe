#include "backend/local/identity.hpp"

#include <fcntl.h>
#include <linux/mount.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#include "base/hooks.hpp"
#include "base/io.hpp"
#include "image/stack.hpp"

namespace berth::local {

namespace {

/// One root is resolved by the kernel; several are looked through as their overlay will be.
Result<std::string> read_etc(const std::vector<std::string>& roots, const std::string& name)
{
    if (roots.size() > 1) {
        BERTH_TRY(const auto stack, image::Stack::open(roots));
        return stack.read(name, 1_MiB);
    }
    BERTH_TRY(const auto root, open_dir(roots.at(0)));
    open_how how{};
    how.flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
    UniqueFd fd(static_cast<int>(::syscall(SYS_openat2, root.get(), name.c_str(), &how, sizeof how)));
    if (!fd)
        return errno == ENOENT ? Result<std::string>(std::string{})
                               : fail_errno("opening {} of the template", name);
    return read_to_end(fd.get(), 1_MiB, name + " of the template");
}

} // namespace

std::string_view to_string(IdMode mode) noexcept
{
    switch (mode) {
    case IdMode::Mapped: return "mapped ids";
    case IdMode::Plain: return "the host's ids, few capabilities";
    case IdMode::Own: return "own id only";
    }
    return "own id only";
}

std::uint32_t Identity::outside(std::uint32_t inside) const
{
    return mode == IdMode::Mapped ? range->base() + inside : inside;
}

bool can_idmap(const std::string& path, int user_namespace)
{
    UniqueFd tree(static_cast<int>(
        ::syscall(SYS_open_tree, AT_FDCWD, path.c_str(), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)));
    if (!tree) return false;
    struct mount_attr attr{};
    attr.attr_set = MOUNT_ATTR_IDMAP;
    attr.userns_fd = static_cast<std::uint64_t>(user_namespace);
    return ::syscall(SYS_mount_setattr, tree.get(), "", AT_EMPTY_PATH, &attr, sizeof attr) == 0;
}

namespace {

/// Names the file systems and the kernel an answer of can_idmap holds for.
std::string probe_name(const std::string& path)
{
    struct stat at{};
    struct stat usr{};
    struct statfs at_fs{};
    struct statfs usr_fs{};
    struct utsname kernel{};
    if (::stat(path.c_str(), &at) != 0 || ::stat("/usr", &usr) != 0 || ::statfs(path.c_str(), &at_fs) != 0 ||
        ::statfs("/usr", &usr_fs) != 0 || ::uname(&kernel) != 0)
        return {};
    return fmt::format("idmap-{:x}-{:x}-{:x}-{:x}-{}", at.st_dev, at_fs.f_type, usr.st_dev, usr_fs.f_type,
                       &kernel.release[0]);
}

/// Trying costs two detached mounts, and closing each waits for a grace period of the kernel: milliseconds
/// on a busy machine. So a success is remembered in the state directory.
bool can_idmap_lowers(const StateDir& state, const std::string& path, int user_namespace)
{
    const std::string name = probe_name(path);
    if (!name.empty() && ::faccessat(state.fd(), name.c_str(), F_OK, 0) == 0) return true;
    if (!can_idmap(path, user_namespace) || !can_idmap("/usr", user_namespace)) return false;
    const UniqueFd made(
        ::openat(state.fd(), name.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600));
    return true;
}

} // namespace

Result<Identity> make_identity(const StateDir& state, const std::string& idmap_probe)
{
    Identity identity;
    if (::geteuid() != 0) return identity;
    if (hooks::wall_off("user-namespace") || hooks::lacks("idmap")) {
        identity.mode = IdMode::Plain;
        return identity;
    }
    BERTH_TRY(const auto leases, state.id_leases());
    BERTH_TRY(auto range, sys::IdRange::lease(leases.get()));
    const std::vector<sys::IdMapping> map{
        {.inside = 0, .outside = range.base(), .count = sys::IdRange::kSize}};
    BERTH_TRY(identity.user_namespace, sys::UserNamespace::make(map, map, range.base()));
    if (!can_idmap_lowers(state, idmap_probe, identity.user_namespace.get())) {
        identity.mode = IdMode::Plain;
        identity.user_namespace = {};
        return identity;
    }
    identity.mode = IdMode::Mapped;
    identity.range.emplace(std::move(range));
    return identity;
}

Result<Account> find_account(std::string_view user, const std::vector<std::string>& roots)
{
    return keeping::find_account(user, [&](const std::string& name) { return read_etc(roots, name); });
}

Result<Account> image_account(const std::string& user, const std::vector<std::string>& roots)
{
    return keeping::image_account(user, [&](const std::string& name) { return read_etc(roots, name); });
}

} // namespace berth::local

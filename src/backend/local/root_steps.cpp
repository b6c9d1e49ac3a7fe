// The root file system of a sandbox: read-only lowers, one private upper, nothing of the host but
// what the template names. The host's own / is never a lower: mapped root would read what host root
// may read. All of it lies on a tmpfs that exists only in the sandbox's mount namespace, so there
// is nothing to unmount or remove when the last process ends, however it ends.

#include <dirent.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>

#include "backend/local/bound_usr.hpp"
#include "backend/local/copy_layers.hpp"
#include "backend/local/host_files.hpp"
#include "backend/local/plan.hpp"
#include "base/hooks.hpp"
#include "base/ids.hpp"
#include "image/stack.hpp"

namespace berth::local {

namespace {

constexpr std::uint64_t kLeave = ~0ull;

/// The id that owns what the sandbox's root owns; an ordinary user owns everything himself.
std::uint64_t root_owner(const Plan& plan)
{
    return plan.identity->mode == IdMode::Own ? kLeave : plan.identity->outside(0);
}

void attach_lower(sys::StepList& list, const std::string& source, std::string_view at,
                  sys::Slot user_namespace)
{
    list.mkdir(at, 0755);
    const auto tree = list.open_tree(source);
    list.mount_attr(tree, MOUNT_ATTR_RDONLY, user_namespace);
    list.move_mount(tree, at);
    list.close(tree);
}

/// The lowers of overlay `n`: its frozen layers, then the template's.
std::string lowers_of(const Plan& plan, std::string_view n, std::string_view base)
{
    std::string lowers;
    for (std::size_t i = 0; i < plan.stack.size(); ++i) lowers += fmt::format("k{}/u{}:", i, n);
    return lowers.append(base);
}

/// Overlay `n` with its upper, or only what that holds of the directory `below`.
std::string overlay_options(const Plan& plan, std::string_view lowers, std::string_view n,
                            std::string_view below = "")
{
    const std::string_view base = plan.durable_upper.empty() ? "" : "i/";
    return fmt::format("lowerdir={},upperdir={}u{}{},workdir={}w{}", lowers, base, n, below, base, n) +
           overlay_flags(plan);
}

/// In a user's sandbox the host's /usr/local is nobody's; directories of the same names in the
/// upper, owned by the user, make it writable without hiding what is there.
void add_user_local(sys::StepList& list, std::string_view upper)
{
    const std::string top = fmt::format("{}/local", upper);
    list.mkdir(top, 0755, EEXIST);
    DIR* dir = ::opendir("/usr/local");
    if (dir == nullptr) return;
    while (const dirent* entry = ::readdir(dir)) { // NOLINT(concurrency-mt-unsafe): our own stream
        if (entry->d_name[0] == '.' || entry->d_type != DT_DIR) continue;
        list.mkdir(fmt::format("{}/{}", top, entry->d_name), 0755, EEXIST);
    }
    ::closedir(dir);
}

/// A layer below has those directories already, or has removed them.
bool needs_user_local(const Plan& plan) { return plan.identity->mode == IdMode::Own && plan.stack.empty(); }

/// On disk the layers hold the sandbox's own ids; the clone shows them as the leased ones.
void attach_durable(sys::StepList& list, const Plan& plan, sys::Slot user_namespace)
{
    list.mkdir("i", 0755);
    const auto tree = list.open_tree(plan.durable_upper);
    list.mount_attr(tree, 0, user_namespace);
    list.move_mount(tree, "i");
    list.close(tree);
}

void add_upper(sys::StepList& list, const Plan& plan, sys::Slot user_namespace)
{
    const auto owner = root_owner(plan);
    if (plan.durable_upper.empty()) {
        for (const char* name : {"u1", "w1", "u2", "w2"}) list.mkdir_owned(name, 0755, owner, owner);
        // A machine id of its own; the directory above it shows through from the skeleton.
        list.mkdir_owned("u1/etc", 0755, owner, owner);
        list.make_file("u1/etc/machine-id", random_hex(16) + "\n", 0444, owner, owner);
        for (const auto& file : host_files(*plan.state, plan.stack, *plan.spec))
            list.make_file("u1/" + file.path, file.text, 0644, owner, owner);
        if (needs_user_local(plan)) add_user_local(list, "u2");
        return;
    }
    attach_durable(list, plan, user_namespace);
    if (needs_user_local(plan)) add_user_local(list, "i/u2");
}

void add_usr(sys::StepList& list, const Plan& plan, sys::Slot user_namespace)
{
    attach_lower(list, plan.layers.usr, "l2", user_namespace);
    if (!plan.layers.usr_mask.empty()) attach_lower(list, plan.layers.usr_mask, "l3", user_namespace);
    const std::string lowers = lowers_of(plan, "2", plan.layers.usr_mask.empty() ? "l2" : "l3:l2");
    list.mount("overlay", "m/usr", "overlay", MS_NODEV, overlay_options(plan, lowers, "2"));
    list.check_writable("m/usr");
}

/// /usr where something is mounted in it (bound_usr.hpp).
void add_bound_usr(sys::StepList& list, const Plan& plan)
{
    const auto tree = list.open_tree(plan.layers.usr, AT_RECURSIVE);
    list.mount_attr(tree, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NODEV, {}, AT_RECURSIVE);
    list.move_mount(tree, "m/usr");
    list.close(tree);
    cover(list, plan.in_usr, "m/usr");
    const std::string local = plan.layers.usr + "/local";
    struct stat st{};
    const auto in_local = [](const Submount& one) {
        return one.below == "local" || one.below.starts_with("local/");
    };
    if (::stat(local.c_str(), &st) != 0 || std::ranges::any_of(plan.in_usr, in_local)) return;
    const auto layers = local_layers(*plan.state, plan.stack);
    list.mkdir(plan.durable_upper.empty() ? "u2/local" : "i/u2/local", layers.mode, EEXIST);
    std::string lowers;
    for (const auto i : layers.in) lowers += fmt::format("{}k{}/u2/local", lowers.empty() ? "" : ":", i);
    if (!layers.hidden) {
        attach_lower(list, local, "l2", {});
        lowers += lowers.empty() ? "l2" : ":l2";
    }
    list.mount("overlay", "m/usr/local", "overlay", MS_NODEV, overlay_options(plan, lowers, "2", "/local"));
    list.check_writable("m/usr/local");
}

bool has_copy(const Plan& plan)
{
    return std::ranges::any_of(plan.binds, [](const Bind& b) { return b.mode == Mount::Mode::Copy; });
}

/// An ordinary user's sandbox has his id: the keepers of his other sandboxes would take it for him,
/// and run what it asks. Their sockets lie in the state directory.
void hide_state(sys::StepList& list, const StateDir& state)
{
    char real[PATH_MAX];
    if (::realpath(state.path().c_str(), &real[0]) == nullptr) return; // opened above, so it is there
    list.say("hiding the state directory");
    list.mount("tmpfs", &real[1], "tmpfs", MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=4k,mode=0",
               ENOENT);
}

/// Makes a directory that the template lacks; where links of the template lead on the way, it leads, too.
void add_missing(sys::StepList& list, const Plan& plan, const std::string& path, std::uint32_t owner)
{
    const auto stack = image::Stack::open(plan.layers.stack());
    if (!stack) return; // the mount of the same directories will tell
    std::string missing;
    for (std::string there = path;;) {
        const auto found = stack->find(there);
        if (!found || (*found && missing.empty())) return;
        if (*found) {
            missing = (*found)->path + missing;
            break;
        }
        const auto slash = there.rfind('/');
        missing = there.substr(slash) + missing;
        there.resize(slash);
    }
    const auto below = missing.find_first_not_of('/');
    const bool mapped = plan.identity->mode == IdMode::Mapped;
    if (mapped) list.fs_ids(plan.identity->outside(owner), plan.identity->outside(owner));
    list.close(list.make_dirs_beneath({}, missing.substr(below), 0755));
    if (mapped) list.fs_ids(0, 0);
}

/// A template somebody else made may lack the home of the user it is to run.
void add_home(sys::StepList& list, const Plan& plan, sys::Slot parent)
{
    if (plan.home.empty() || plan.home == "/" || plan.layers.kind == Template::Kind::Host) return;
    stage(list, parent, "making the home directory");
    add_missing(list, plan, plan.home, plan.home_owner);
}

} // namespace

void add_root(sys::StepList& list, const Plan& plan, sys::Slot parent, sys::Slot user_namespace)
{
    stage(list, parent, "mounting the sandbox's own file system");
    // Ours may be 077, and neither what is made here nor what is run in it has anything to do with that.
    list.umask(022);
    list.make_private();
    const auto inodes = std::max<std::uint64_t>(16384, plan.disk.count / 16384);
    list.mount("tmpfs", plan.state->mount_point(), "tmpfs", MS_NOSUID | MS_NODEV,
               fmt::format("size={},nr_inodes={},mode=0755", plan.disk.count, inodes));
    list.chdir(plan.state->mount_point());

    if (plan.layers.kind == Template::Kind::Live) {
        stage(list, parent, "cloning the host's view");
        list.mkdir("m", 0755);
        const auto tree = list.open_tree("/", AT_RECURSIVE);
        // Devices too answer through a read-only mount, and there may be more of them than in /dev.
        list.mount_attr(tree, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, {}, AT_RECURSIVE);
        list.move_mount(tree, "m");
        list.close(tree);
        // It has no layers of its own but those of copies.
        if (!plan.durable_upper.empty() && has_copy(plan)) attach_durable(list, plan, user_namespace);
        list.chdir("m");
        // Sockets answer through a read-only mount: those of the host's daemons must be out of sight.
        for (const char* hidden : kHiddenInLive)
            list.mount("tmpfs", hidden, "tmpfs", MS_NOSUID | MS_NODEV, "size=64m,nr_inodes=16384,mode=1777",
                       ENOENT);
        hide_state(list, *plan.state);
        return;
    }

    stage(list, parent, "preparing the writable layer");
    add_upper(list, plan, user_namespace);
    stage(list, parent, "attaching the template");
    attach_lower(list, plan.layers.root, "l1", user_namespace);
    std::string root_lowers = "l1";
    for (std::size_t i = 0; i < plan.layers.more_roots.size(); ++i) {
        const std::string at = fmt::format("r{}", i);
        attach_lower(list, plan.layers.more_roots[i], at, user_namespace);
        root_lowers += ":" + at;
    }
    // One clone serves all of them, however many there are.
    if (!plan.stack.empty()) attach_lower(list, plan.state->layers(), "s", user_namespace);
    for (std::size_t i = 0; i < plan.stack.size(); ++i)
        list.symlink("s/" + plan.stack[i], fmt::format("k{}", i));

    stage(list, parent, "mounting the root overlay");
    list.mkdir("m", 0755);
    const bool as_mapped_root = plan.identity->mode == IdMode::Mapped && !plan.durable_upper.empty();
    if (as_mapped_root) list.fs_ids(plan.identity->outside(0), plan.identity->outside(0));
    // Nodes in our own skeleton are the usual six; a template somebody else made gets none.
    const std::uint64_t nodev = plan.layers.devices ? 0 : MS_NODEV;
    list.mount("overlay", "m", "overlay", nodev,
               overlay_options(plan, lowers_of(plan, "1", root_lowers), "1"));
    list.check_writable("m");
    if (!plan.in_usr.empty())
        add_bound_usr(list, plan);
    else if (!plan.layers.usr.empty())
        add_usr(list, plan, user_namespace);
    if (as_mapped_root) list.fs_ids(0, 0);
    list.chdir("m");
    add_home(list, plan, parent);
    if (plan.layers.image && !plan.layers.image->workdir.empty()) {
        stage(list, parent, "making the image's working directory");
        add_missing(list, plan, plan.layers.image->workdir, 0);
    }
}

} // namespace berth::local

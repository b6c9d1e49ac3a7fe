// /proc and /dev of a sandbox. They protect what the kernel tells about the whole machine: files of
// /proc that do so are covered, /dev holds six harmless devices and terminals of its own.

#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <span>

#include "backend/local/plan.hpp"
#include "base/hooks.hpp"
#include "base/ids.hpp"

namespace berth::local {

namespace {

constexpr std::uint64_t kInert = MS_NOSUID | MS_NODEV | MS_NOEXEC;

// What tells something about the whole machine. Which exist differs between kernels; what is
// missing needs no mask. Files that only the host's root may read need none either: he is nobody here.
constexpr const char* kMaskedFiles[] = {"cmdline",       "kcore",      "kallsyms",    "keys",
                                        "latency_stats", "timer_list", "sched_debug", "sysrq-trigger"};
// Without a user namespace root inside is the host's.
constexpr const char* kMaskedFromRoot[] = {"kpagecgroup", "kpagecount", "kpageflags", "slabinfo",
                                           "vmallocinfo"};
constexpr const char* kMaskedDirs[] = {"scsi", "acpi", "irq", "bus", "fs"};

struct Device {
    const char* name;
    unsigned major;
    unsigned minor;
};
constexpr Device kDevices[] = {{"null", 1, 3},   {"zero", 1, 5},    {"full", 1, 7},
                               {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}};

/// Of these names in the host's /proc, the ones this kernel has: that does not change while it runs.
std::vector<std::string> present(std::span<const char* const> names)
{
    std::vector<std::string> there;
    for (const char* name : names)
        if (::access(fmt::format("/proc/{}", name).c_str(), F_OK) == 0) there.emplace_back(name);
    return there;
}

/// A mount point that must be a directory of the template itself, never where a symlink leads.
void make_point(sys::StepList& list, const Identity& identity, const char* name)
{
    // A layer on disk takes files of the sandbox's own users only.
    const bool mapped = identity.mode == IdMode::Mapped;
    if (mapped) list.fs_ids(identity.outside(0), identity.outside(0));
    const auto made = list.make_dirs_beneath({}, name, 0755);
    if (mapped) list.fs_ids(0, 0);
    list.close(made);
}

/// The host's root could change the host's null device through a mount of it: he gets a file of his own.
void mask_files(sys::StepList& list, IdMode mode, const std::vector<std::string>& names)
{
    const char* const mask = mode == IdMode::Plain ? "../none" : "/dev/null";
    if (mode == IdMode::Plain) list.make_file(mask, "", 0444, ~0ull, ~0ull);
    for (const auto& name : names) {
        if (hooks::wall_off(fmt::format("mask-{}", name))) continue;
        const std::string target = fmt::format("proc/{}", name);
        list.mount(mask, target, nullptr, MS_BIND, {}, ENOENT);
        if (mode == IdMode::Plain)
            list.mount(nullptr, target, nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | kInert, {}, ENOENT);
    }
}

/// The host's says which machine this is, and since when it runs. Each start of a sandbox has one of its own,
/// so that whoever comes back finds out whether the processes of before are still there.
void add_boot_id(sys::StepList& list, IdMode mode)
{
    constexpr const char* place = "proc/sys/kernel/random/boot_id";
    if (hooks::wall_off("mask-boot_id")) return;
    const std::string hex = random_hex(16);
    const std::string_view id = hex;
    list.make_file("../boot_id",
                   fmt::format("{}-{}-4{}-a{}-{}\n", id.substr(0, 8), id.substr(8, 4), id.substr(13, 3),
                               id.substr(17, 3), id.substr(20)),
                   0444, ~0ull, ~0ull);
    list.mount("../boot_id", place, nullptr, MS_BIND, {}, ENOENT);
    // Mapped root is nobody there; everybody else could write to a file of their own.
    if (mode != IdMode::Mapped)
        list.mount(nullptr, place, nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | kInert, {}, ENOENT);
}

} // namespace

void add_proc(sys::StepList& list, const Plan& plan, sys::Slot parent)
{
    stage(list, parent, "mounting /proc");
    const IdMode mode = plan.identity->mode;
    if (plan.layers.kind != Template::Kind::Host && plan.layers.kind != Template::Kind::Live)
        make_point(list, *plan.identity, "proc");
    list.mount("proc", "proc", "proc", kInert, mode == IdMode::Own ? "hidepid=2" : "");

    // The kernel lets a nested sandbox mount a proc of its own only where no part of ours is covered;
    // who asks for nested namespaces gets that, and the masks are the price (docs/reference/policy.md).
    if (plan.spec->policy.nested_namespaces && mode != IdMode::Plain) return;
    stage(list, parent, "masking parts of /proc");
    static const std::vector<std::string> files = present(kMaskedFiles);
    static const std::vector<std::string> directories = present(kMaskedDirs);
    auto all = files;
    if (mode == IdMode::Plain)
        for (auto& name : present(kMaskedFromRoot)) all.push_back(std::move(name));
    mask_files(list, mode, all);
    std::string first;
    for (const auto& name : directories) {
        if (hooks::wall_off(fmt::format("mask-{}", name))) continue;
        const std::string target = fmt::format("proc/{}", name);
        if (first.empty()) {
            list.mkdir("../empty", 0555); // beside the root, out of reach of everybody inside
            list.mount("../empty", target, nullptr, MS_BIND);
            list.mount(nullptr, target, nullptr, MS_REMOUNT | MS_BIND | MS_RDONLY | kInert);
            first = target;
        } else {
            list.mount(first.c_str(), target, nullptr, MS_BIND, {}, ENOENT);
        }
    }
    // Mapped root owns none of the sysctls; everybody else gets them read-only by mount.
    if (mode != IdMode::Mapped && !hooks::wall_off("mask-sys")) {
        const auto tree = list.open_tree("proc/sys");
        list.mount_attr(tree, MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
        list.move_mount(tree, "proc/sys");
        list.close(tree);
    }
    add_boot_id(list, mode);
}

void add_dev(sys::StepList& list, const Plan& plan, sys::Slot parent)
{
    stage(list, parent, "filling /dev");
    const Identity& identity = *plan.identity;
    if (!plan.layers.devices) {
        if (plan.layers.kind != Template::Kind::Live) make_point(list, identity, "dev");
        const std::string owner = identity.mode == IdMode::Mapped
                                      ? fmt::format(",uid={0},gid={0}", identity.outside(0))
                                      : std::string{};
        list.mount("tmpfs", "dev", "tmpfs", MS_NOSUID | MS_NOEXEC, "size=64k,nr_inodes=256,mode=755" + owner);
        list.umask(0);
        for (const Device& device : kDevices) {
            const std::string at = fmt::format("dev/{}", device.name);
            if (identity.mode == IdMode::Own) {
                // Only the owner of the host's user namespace may make nodes; a bind shows the host's.
                list.close(list.make_file_beneath({}, at));
                list.mount(fmt::format("/dev/{}", device.name).c_str(), at, nullptr, MS_BIND);
            } else {
                list.make_node(at, S_IFCHR | 0666, makedev(device.major, device.minor));
            }
        }
        list.umask(022);
        list.mkdir("dev/pts", 0755);
        list.mkdir("dev/shm", 01777);
        list.symlink("pts/ptmx", "dev/ptmx");
        list.symlink("/proc/self/fd", "dev/fd");
        list.symlink("/proc/self/fd/0", "dev/stdin");
        list.symlink("/proc/self/fd/1", "dev/stdout");
        list.symlink("/proc/self/fd/2", "dev/stderr");
    }
    std::string options = "newinstance,ptmxmode=0666,mode=620,max=256";
    if (identity.mode != IdMode::Own) options += fmt::format(",gid={}", identity.outside(5));
    list.mount("devpts", "dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, options);
    if (plan.durable_upper.empty() && plan.layers.kind != Template::Kind::Live) {
        // Everything written lies in memory anyway, under one limit; a file system less to make.
        const auto owner = identity.mode == IdMode::Own ? ~0ull : identity.outside(0);
        list.umask(0);
        list.mkdir_owned("../shm", 01777, owner, owner);
        list.umask(022);
        list.mount("../shm", "dev/shm", nullptr, MS_BIND);
    } else {
        list.mount("tmpfs", "dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "size=64m,nr_inodes=16384,mode=1777");
    }
}

} // namespace berth::local

#include "sys/cgroup_v2_base.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>

#include "base/io.hpp"
#include "base/strings.hpp"
#include "sys/cgroup_files.hpp"
#include "sys/cgroup_kept.hpp"

namespace berth::sys {
namespace {

struct Candidate {
    std::string path;
    ControllerSet enabled;  ///< already handed down
    ControllerSet possible; ///< handed down once we write it
    bool usable = false;
    bool must_move = false;
    Lack lack;
};

bool has(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

bool read_only(const std::string& path)
{
    struct statvfs fs{};
    return ::statvfs(path.c_str(), &fs) == 0 && (fs.f_flag & ST_RDONLY) != 0;
}

Candidate look_at(const std::string& path, const OwnGroup& own, MoveSelf move)
{
    Candidate found;
    found.path = path;
    // The root of the hierarchy, and only it, has no type; it may hold processes and hand down.
    const bool is_root = path == own.mount && !has(path + "/cgroup.type");
    if (!is_root && !read_file(path + "/cgroup.type").value_or("").starts_with("domain\n")) {
        found.lack = {fmt::format("group {} is not a domain of its own", path), delegation_remedy()};
        return found;
    }
    if (!may_write(path) || !may_write(path + "/cgroup.procs")) {
        if (read_only(path))
            found.lack = {fmt::format("{} is mounted read-only", own.mount),
                          "mount it writable; in a container: docker run --privileged"};
        else
            found.lack = {fmt::format("group {} belongs to somebody else", path),
                          "run as root, or " + delegation_remedy()};
        return found;
    }
    found.usable = true;
    const auto offered = parse_controllers(read_file(path + "/cgroup.controllers").value_or(""));
    found.enabled = parse_controllers(read_file(path + "/cgroup.subtree_control").value_or("")) & offered;
    found.possible = found.enabled;
    if (offered == found.enabled || !may_write(path + "/cgroup.subtree_control")) return found;

    const auto processes = processes_in(path);
    const bool occupied = !is_root && !(processes && processes->empty());
    const bool only_us =
        path == own.path && processes && processes->size() == 1 && processes->front() == ::getpid();
    if (occupied && !(only_us && move == MoveSelf::IfNeeded)) {
        found.lack = {
            fmt::format("other processes live in group {}, so it cannot hand its controllers down", path),
            delegation_remedy()};
        return found;
    }
    found.must_move = occupied;
    found.possible = offered;
    return found;
}

/// Hands the missing controllers down. What the kernel refuses stays missing.
void enable(Candidate& base)
{
    const auto missing = base.possible & ~base.enabled;
    if (missing.none()) return;
    if (base.must_move) {
        const std::string leaf = fmt::format("{}/{}", base.path, kSelfGroup);
        if (::mkdir(leaf.c_str(), 0755) != 0 && errno != EEXIST) return;
        if (!write_control(leaf + "/cgroup.procs", "0")) return;
    }
    for (const auto c : kControllers) {
        if (!missing[index(c)]) continue;
        const auto written =
            write_control(base.path + "/cgroup.subtree_control", fmt::format("+{}", to_string(c)));
        if (written)
            base.enabled.set(index(c));
        else
            base.lack = {written.error().message, delegation_remedy()};
    }
}

} // namespace

std::string delegation_remedy()
{
    return fmt::format("start berth in a group of its own: systemd-run {}--scope -p Delegate=yes berth …",
                       ::geteuid() == 0 ? "" : "--user ");
}

V2Base choose_v2_base(const OwnGroup& own, MoveSelf move)
{
    std::vector<Candidate> candidates;
    const auto first = lasting(own);
    if (first != own) candidates.push_back(look_at(first.path, own, move));
    for (const auto& path : ancestry(own)) candidates.push_back(look_at(path, own, move));
    if (candidates.empty())
        return {.path = "", .enabled = {}, .lack = {"no v2 group is shown", delegation_remedy()}};

    // The first of the best: max_element keeps the nearest among equals.
    auto best = std::ranges::max_element(candidates, {}, [](const Candidate& c) {
        return c.usable ? static_cast<int>(c.possible.count()) : -1;
    });
    if (!best->usable) return {.path = "", .enabled = {}, .lack = candidates.front().lack};
    enable(*best);
    if (best->lack.reason.empty())
        best->lack = {fmt::format("group {} is not given it from above", best->path),
                      ::geteuid() == 0
                          ? "enable it in cgroup.subtree_control of the groups above, or boot with "
                            "cgroup_enable=memory"
                          : "let systemd delegate it: a drop-in for user@.service with Delegate=cpu "
                            "memory pids"};
    return {.path = best->path, .enabled = best->enabled, .lack = best->lack};
}

} // namespace berth::sys

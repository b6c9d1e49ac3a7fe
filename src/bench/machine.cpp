#include "bench/machine.hpp"

#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>

#include "backend/local/holdings.hpp"
#include "backend/local/identity.hpp"
#include "base/io.hpp"
#include "base/strings.hpp"
#include "sys/cgroup.hpp"

namespace berth::bench {

namespace {

std::string cgroup_layout(const std::string& mountinfo)
{
    const auto own = read_file("/proc/self/cgroup");
    const auto layout = sys::parse_layout(own ? *own : std::string{}, mountinfo);
    bool v1 = false;
    for (const auto& group : layout.v1) v1 = v1 || group.has_value();
    if (layout.v2) return v1 ? "hybrid" : "v2";
    return v1 ? "v1" : "none";
}

std::vector<std::string> fallbacks(const local::StateDir& state)
{
    std::vector<std::string> out;
    const auto identity = local::make_identity(state, state.path());
    if (!identity)
        out.push_back(identity.error().line());
    else if (identity->mode != local::IdMode::Mapped)
        out.push_back(fmt::format("ids: {}", local::to_string(identity->mode)));
    if (const int abi = local::landlock_abi(); abi < 6) out.push_back(fmt::format("landlock: ABI {}", abi));
    const auto tree = sys::CgroupTree::open();
    for (const auto controller : sys::kControllers) {
        const auto& facility = tree.of(controller);
        if (facility.version != sys::Facility::Version::V2)
            out.push_back(
                fmt::format("cgroup {}: {}", sys::to_string(controller), sys::to_string(facility.version)));
    }
    if (!tree.leaf().available()) out.push_back("cgroup v2 leaf: none");
    return out;
}

} // namespace

std::string file_system_of(const std::string& path, const std::string& mountinfo)
{
    // 36 35 98:0 /root /mount/point options... - type source options; the longest, and of equals
    // the last, covers the path.
    std::string best = "unknown";
    std::size_t length = 0;
    for (const auto& line : split(mountinfo, '\n')) {
        const auto words = split(line, ' ');
        const auto dash = line.find(" - ");
        if (words.size() < 5 || dash == std::string::npos) continue;
        const std::string& point = words[4];
        const bool covers =
            point == "/" || path == point || (path.starts_with(point) && path[point.size()] == '/');
        if (!covers || point.size() < length) continue;
        length = point.size();
        best = line.substr(dash + 3, line.find(' ', dash + 3) - dash - 3);
    }
    return best;
}

double load_now()
{
    double load = 0;
    return ::getloadavg(&load, 1) == 1 ? load : 0;
}

Machine look_at_machine(const local::StateDir& state)
{
    Machine machine;
    utsname name{};
    ::uname(&name);
    machine.kernel = &name.release[0];
    machine.cores = static_cast<unsigned>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
    machine.root = ::geteuid() == 0;
    machine.load_before = load_now();
    machine.state_path = state.path();
    const auto mounts = read_file("/proc/self/mountinfo", 16_MiB);
    machine.state_file_system = mounts ? file_system_of(state.path(), *mounts) : "unknown";
    machine.cgroup_layout = cgroup_layout(mounts ? *mounts : std::string{});
    machine.fallbacks = fallbacks(state);
    return machine;
}

} // namespace berth::bench

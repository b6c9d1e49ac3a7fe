#include "sys/cgroup_layout.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "base/strings.hpp"

namespace berth::sys {
namespace {

struct Mount {
    std::string root; ///< the group that is shown at `point`
    std::string point;
    bool v2 = false;
    std::vector<std::string> controllers; ///< of a v1 hierarchy
};

/// The kernel writes space, tab, newline and backslash as three octal digits.
std::string unescape(std::string_view text)
{
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto digit = [&](std::size_t at) {
            return at < text.size() && text[at] >= '0' && text[at] <= '7' ? text[at] - '0' : -1;
        };
        if (text[i] == '\\' && digit(i + 1) >= 0 && digit(i + 2) >= 0 && digit(i + 3) >= 0) {
            out += static_cast<char>(digit(i + 1) * 64 + digit(i + 2) * 8 + digit(i + 3));
            i += 3;
        } else {
            out += text[i];
        }
    }
    return out;
}

/// "36 31 0:33 / /sys/fs/cgroup/devices rw,relatime shared:5 - cgroup cgroup rw,devices"
std::optional<Mount> parse_mount(const std::string& line)
{
    const auto fields = split(line, ' ');
    const auto dash = std::ranges::find(fields, "-");
    if (fields.size() < 6 || fields.end() - dash < 4) return std::nullopt;
    const std::string& type = *(dash + 1);
    if (type != "cgroup" && type != "cgroup2") return std::nullopt;
    return Mount{.root = unescape(fields[3]),
                 .point = unescape(fields[4]),
                 .v2 = type == "cgroup2",
                 .controllers = split(*(dash + 3), ',')};
}

bool below(std::string_view path, std::string_view root)
{
    return path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
}

/// The directory of group `path` in `mount`, if the mount shows it. A mount made outside of our
/// cgroup namespace has a root like "/../..": then we do not know our own name in it.
std::optional<OwnGroup> locate(const Mount& mount, const std::string& path)
{
    if (below(path, "/..") || below(mount.root, "/..")) return std::nullopt;
    std::string rest;
    if (mount.root == "/")
        rest = path == "/" ? "" : path;
    else if (below(path, mount.root))
        rest = path.substr(mount.root.size());
    else
        return std::nullopt;
    return OwnGroup{.mount = mount.point, .path = mount.point + rest};
}

} // namespace

std::string_view to_string(Controller controller) noexcept
{
    switch (controller) {
    case Controller::Memory: return "memory";
    case Controller::Pids: return "pids";
    case Controller::Cpu: return "cpu";
    case Controller::Freezer: return "freezer";
    }
    return "unknown";
}

ControllerSet parse_controllers(std::string_view text)
{
    ControllerSet set;
    while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
    for (const auto& word : split(text, ' '))
        for (const auto controller : kControllers)
            if (word == to_string(controller)) set.set(index(controller));
    return set;
}

std::vector<std::string> ancestry(const OwnGroup& group)
{
    std::vector<std::string> groups;
    for (std::string at = group.path; below(at, group.mount); at.resize(at.rfind('/'))) {
        groups.push_back(at);
        if (at == group.mount || at.rfind('/') == std::string::npos) break;
    }
    return groups;
}

OwnGroup lasting(const OwnGroup& group)
{
    OwnGroup out = group;
    const auto slash = [&] { return out.path.rfind('/'); };
    const auto name = [&] { return std::string_view(out.path).substr(slash() + 1); };
    const auto climb = [&] {
        if (out.path != out.mount) out.path.resize(slash());
    };
    if (name() == kSelfGroup) climb();
    if (!name().ends_with(".service")) return out;
    const OwnGroup unit = out;
    climb();
    return name() == kOwnSlice ? out : unit;
}

CgroupLayout parse_layout(std::string_view own_groups, std::string_view mounts)
{
    std::vector<Mount> mounted;
    for (const auto& line : split(mounts, '\n'))
        if (auto mount = parse_mount(line)) mounted.push_back(std::move(*mount));

    CgroupLayout layout;
    for (const auto& line : split(own_groups, '\n')) { // "4:memory:/a/b", "0::/a/b"
        const auto first = line.find(':');
        const auto second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos) continue;
        const auto names = split(line.substr(first + 1, second - first - 1), ',');
        std::string path = line.substr(second + 1);
        if (path.ends_with(" (deleted)")) continue;
        const bool v2 = line.substr(0, first) == "0";
        for (const auto& mount : mounted) {
            if (mount.v2 != v2) continue;
            const auto own = locate(mount, path);
            if (v2) {
                if (own && !layout.v2) layout.v2 = own;
                if (!own) layout.why_no_v2 = fmt::format("{} does not show our group {}", mount.point, path);
                continue;
            }
            for (const auto controller : kControllers) {
                const std::string name(to_string(controller));
                const bool ours = std::ranges::find(names, name) != names.end() &&
                                  std::ranges::find(mount.controllers, name) != mount.controllers.end();
                if (ours && own && !layout.v1[index(controller)]) layout.v1[index(controller)] = own;
            }
        }
    }
    return layout;
}

} // namespace berth::sys

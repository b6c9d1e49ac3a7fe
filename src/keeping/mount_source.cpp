#include "keeping/mount_source.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>

#include "base/strings.hpp"
#include "sys/way_down.hpp"

namespace berth::keeping {

namespace {

Result<std::string> real_path(const std::string& path)
{
    char buffer[PATH_MAX];
    if (::realpath(path.c_str(), &buffer[0]) == nullptr)
        return fail_errno("mount source {}", printable(path));
    return std::string(&buffer[0]);
}

/// Follows no link at all: what is opened is what was resolved, or nothing.
Result<MountSource> open_real(const std::string& path)
{
    open_how how{};
    how.flags = O_PATH | O_CLOEXEC | O_NOFOLLOW;
    how.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    MountSource out;
    out.fd.reset(static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof how)));
    struct stat st{};
    if (!out.fd || ::fstat(out.fd.get(), &st) != 0) return fail_errno("mount source {}", printable(path));
    if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
        return fail(Code::Invalid, "mount source {} is neither a directory nor a file", printable(path));
    out.file = S_ISREG(st.st_mode);
    out.pin.path = path;
    if (out.file) return out; // may be replaced by whoever edits it
    out.pin.device = std::to_string(st.st_dev);
    out.pin.inode = std::to_string(st.st_ino);
    return out;
}

bool same(const Pin& pin, const MountSource& now)
{
    return (pin.inode.empty() || pin.inode == now.pin.inode) &&
           (pin.device.empty() || pin.device == now.pin.device);
}

/// Where engines listen, sockets and directories of them.
std::vector<std::string> engine_places(const std::string& socket)
{
    std::vector<std::string> out{"/var/run/docker.sock", "/run/docker.sock", "/run/podman",
                                 "/run/containerd",      "/run/crio",        socket};
    if (const char* host = std::getenv("DOCKER_HOST");
        host != nullptr && std::string_view(host).starts_with("unix://"))
        out.emplace_back(host + std::string_view("unix://").size());
    if (const char* own = std::getenv("XDG_RUNTIME_DIR"); own != nullptr && *own == '/')
        for (const char* name : {"/docker.sock", "/podman"}) out.push_back(own + std::string(name));
    std::erase(out, "");
    return out;
}

/// The innermost of the other mounts that `target` lies in.
std::optional<std::size_t> mount_around(const SandboxSpec& spec, const std::string& target)
{
    std::optional<std::size_t> found;
    for (std::size_t j = 0; j < spec.mounts.size(); ++j) {
        const auto& other = spec.mounts[j].target;
        if (!target.starts_with(other + "/")) continue;
        if (!found || other.size() > spec.mounts[*found].target.size()) found = j;
    }
    return found;
}

Status check_point(const SandboxSpec& spec, const std::vector<MountSource>& sources, std::size_t i)
{
    const auto& target = spec.mounts[i].target;
    const auto around = mount_around(spec, target);
    if (!around || spec.mounts[*around].mode == Mount::Mode::Copy) return {};
    const auto& outer = spec.mounts[*around].target;
    const std::string below = target.substr(outer.size() + 1);
    open_how how{};
    how.flags = O_PATH | O_CLOEXEC | O_NOFOLLOW;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    const UniqueFd point(
        static_cast<int>(::syscall(SYS_openat2, sources[*around].fd.get(), below.c_str(), &how, sizeof how)));
    struct stat st{};
    if (point && ::fstat(point.get(), &st) == 0 &&
        (sources[i].file ? S_ISREG(st.st_mode) : S_ISDIR(st.st_mode)))
        return {};
    return fail(Code::Invalid,
                "mount {} lies in mount {}, and {} has no {} {} to mount it on: make it there, or mount it "
                "elsewhere",
                printable(target), printable(outer), printable(sources[*around].pin.path),
                sources[i].file ? "file" : "directory", printable(below));
}

} // namespace

Result<MountSource> open_source(const std::string& path)
{
    BERTH_TRY(const auto real, real_path(path));
    return open_real(real);
}

Result<MountSource> open_pinned(const Mount& mount, const Pin& pin)
{
    auto now = open_real(pin.path);
    if (now && same(pin, *now)) return now;
    return fail(Code::Denied,
                "mount {}: {} is not what it was when the sandbox was made ({}): put back what was there, or "
                "make the sandbox anew",
                printable(mount.target), printable(pin.path),
                now ? "another directory has its name"
                    : fmt::format("there is nothing, or a link on the way to it: {}", now.error().message));
}

Result<std::vector<Pin>> pin_mounts(const SandboxSpec& spec)
{
    std::vector<Pin> out;
    for (const auto& mount : spec.mounts) {
        BERTH_TRY(auto source, open_source(mount.source));
        out.push_back(std::move(source.pin));
    }
    return out;
}

SandboxSpec at_pins(SandboxSpec spec, const std::vector<Pin>& pins)
{
    for (std::size_t i = 0; i < pins.size() && i < spec.mounts.size(); ++i)
        spec.mounts[i].source = pins[i].path;
    return spec;
}

json::Array to_json(const std::vector<Pin>& pins)
{
    json::Array out;
    for (const auto& pin : pins)
        out.emplace_back(json::Object{{"path", pin.path}, {"device", pin.device}, {"inode", pin.inode}});
    return out;
}

Result<std::vector<Pin>> read_pins(const json::Reader& record, const SandboxSpec& spec, bool same_boot)
{
    std::vector<Pin> out;
    BERTH_TRY(const auto found, record.find("pins"));
    if (!found) {
        for (const auto& mount : spec.mounts)
            out.push_back({.path = mount.source, .device = {}, .inode = {}});
        return out;
    }
    BERTH_TRY(const auto all, found->array());
    if (all.size() != spec.mounts.size()) return found->refuse("{} pins", all.size());
    for (const auto& one : all) {
        Pin& pin = out.emplace_back();
        for (const auto& [name, into] : {std::pair("path", &pin.path), std::pair("device", &pin.device),
                                         std::pair("inode", &pin.inode)}) {
            BERTH_TRY(const auto member, one.at(name));
            BERTH_TRY(*into, member.string());
        }
        if (!same_boot) pin.device.clear();
    }
    return out;
}

Status check_points(const SandboxSpec& spec, const std::vector<MountSource>& sources)
{
    for (std::size_t i = 0; i < sources.size(); ++i) BERTH_CHECK(check_point(spec, sources, i));
    return {};
}

Status refuse_engines(const MountSource& source, const std::string& socket)
{
    if (source.file) return {};
    for (const auto& named : engine_places(socket)) {
        const auto real = real_path(named);
        struct stat st{};
        if (!real || ::stat(real->c_str(), &st) != 0) continue; // no such engine here
        const bool whole = S_ISDIR(st.st_mode);
        const std::string place = whole ? *real : real->substr(0, std::max<std::size_t>(real->rfind('/'), 1));
        // What we may not enter our sandboxes may not either.
        if (::faccessat(AT_FDCWD, place.c_str(), X_OK, AT_EACCESS) != 0) continue;
        const UniqueFd at(::open(place.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
        if (!at) return fail_errno("looking at {}", printable(place));
        BERTH_TRY(const auto around, sys::way_down(source.fd.get(), at.get(), place));
        auto within = std::optional<std::string>();
        if (whole) {
            BERTH_TRY(within, sys::way_down(at.get(), source.fd.get(), source.pin.path));
        }
        if (around || within)
            return fail(Code::Denied,
                        "mount source {} would show {}, by which whoever reaches an engine is root of this "
                        "machine: mount something beside it",
                        printable(source.pin.path), printable(named));
    }
    return {};
}

} // namespace berth::keeping

#include "core/sandbox_spec.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "base/strings.hpp"
#include "policy/bind.hpp"

namespace berth {

namespace {

constexpr std::size_t kMaxVariable = 131'072; // MAX_ARG_STRLEN
constexpr std::size_t kMaxEnvironment = 1u << 20;
constexpr std::size_t kForkDigits = 8;

/// Cuts a known mode off the end: "a:b:rw" -> rw.
std::optional<Mount::Mode> take_mode(std::string_view& text)
{
    constexpr std::pair<std::string_view, Mount::Mode> modes[] = {
        {":ro", Mount::Mode::ReadOnly}, {":rw", Mount::Mode::ReadWrite}, {":copy", Mount::Mode::Copy}};
    for (const auto& [suffix, mode] : modes)
        if (text.ends_with(suffix)) {
            text.remove_suffix(suffix.size());
            return mode;
        }
    return std::nullopt;
}

Result<std::string> absolute(std::string_view path, std::string_view cwd)
{
    if (path.empty()) return fail(Code::Invalid, "empty path");
    if (path.front() == '/') return policy::normalise(path);
    return policy::normalise(fmt::format("{}/{}", cwd, path));
}

/// Targets berth itself fills: a mount there would undo a wall or be undone by one.
bool reserved_target(std::string_view target)
{
    for (const std::string_view top : {"/proc", "/sys", "/dev", "/.berth"})
        if (target == top || (target.starts_with(top) && target[top.size()] == '/')) return true;
    // Where a keeper is put into a container that somebody else made.
    return target.starts_with("/.berth-");
}

constexpr std::string_view kTemplates =
    "host, live, a directory, a tar file, an image, or one that berth template ls shows";

Result<std::string> resolve(const std::string& path)
{
    char* real = ::realpath(path.c_str(), nullptr);
    if (real == nullptr) return fail_errno("template {}", printable(path));
    std::string resolved(real);
    ::free(real); // NOLINT(cppcoreguidelines-no-malloc): realpath allocated it
    return resolved;
}

/// "PATH[:TAG]". Both may hold colons, so the longest beginning that exists is the path.
Result<Template> parse_image(std::string_view text)
{
    if (text.empty() || text.find('\0') != std::string_view::npos)
        return fail(Code::Invalid, "bad image '{}': write it like oci:DIR:TAG", printable(text, 80));
    for (auto end = text.size(); end != std::string_view::npos && end > 0; end = text.rfind(':', end - 1)) {
        auto resolved = resolve(std::string(text.substr(0, end)));
        if (!resolved && resolved.error().code != Code::NotFound) return std::unexpected(resolved.error());
        if (!resolved) continue;
        return Template{.kind = Template::Kind::Oci,
                        .path = *std::move(resolved),
                        .tag = std::string(text.substr(std::min(end + 1, text.size())))};
    }
    return fail(Code::NotFound, "no image {}", printable(text));
}

/// The name of an image as registries write it; what it means is for whoever has it to say.
Result<Template> parse_image_name(std::string_view name)
{
    constexpr std::string_view plain =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:@+[]";
    if (name.empty() || name.size() > 512 || name.find_first_not_of(plain) != std::string_view::npos ||
        name.starts_with('-') || name.starts_with('/'))
        return fail(Code::Invalid, "bad image '{}': write it like image:debian:12", printable(name, 80));
    return Template{.kind = Template::Kind::Image, .path = std::string(name), .tag = {}};
}

Status check_target(const std::string& target, const std::string& what)
{
    if (target == "/") return fail(Code::Invalid, "cannot mount {} over /", printable(what));
    if (reserved_target(target))
        return fail(Code::Invalid, "cannot mount over {}: berth makes /proc, /sys, /dev and /.berth itself",
                    printable(target));
    return {};
}

bool within(std::string_view path, std::string_view dir)
{
    return path == dir || (path.starts_with(dir) && path[dir.size()] == '/');
}

/// One below the other would be shown or hidden by the order they are mounted in.
Status validate_volumes(const SandboxSpec& spec)
{
    BERTH_CHECK(validate_volume_names(spec.volumes));
    for (std::size_t i = 0; i < spec.volumes.size(); ++i) {
        const Volume& volume = spec.volumes[i];
        const std::string what = fmt::format("volume '{}'", printable(volume.name, 60));
        BERTH_TRY(const auto normal, policy::normalise(volume.target));
        if (normal != volume.target)
            return fail(Code::Invalid, "the target '{}' of {} is not a plain absolute path",
                        printable(volume.target), what);
        BERTH_CHECK(check_target(volume.target, what));
        const auto refuse_overlap = [&](const std::string& other, std::string_view kind) -> Status {
            if (!within(other, volume.target) && !within(volume.target, other)) return {};
            return fail(Code::Invalid, "{} on {} and the {} on {} lie in each other", what,
                        printable(volume.target), kind, printable(other));
        };
        for (std::size_t j = 0; j < i; ++j) BERTH_CHECK(refuse_overlap(spec.volumes[j].target, "volume"));
        for (const auto& mount : spec.mounts) BERTH_CHECK(refuse_overlap(mount.target, "mount"));
    }
    return {};
}

/// One label of a host name, RFC 1035.
Status check_label(std::string_view what, std::string_view text)
{
    constexpr std::size_t kLongest = 63;
    constexpr std::string_view kAllowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-";
    if (!text.empty() && text.size() <= kLongest &&
        text.find_first_not_of(kAllowed) == std::string_view::npos)
        return {};
    return fail(Code::Invalid, "bad {} '{}': 1 to {} letters, digits and '-'", what, printable(text, 80),
                kLongest);
}

} // namespace

Status check_sandbox_name(std::string_view name)
{
    // Every verb would take it for an option.
    if (name.starts_with('-'))
        return fail(Code::Invalid, "bad name '{}': it must not begin with '-'", printable(name, 80));
    return check_label("name", name);
}

std::string host_name(const SandboxSpec& spec)
{
    if (!spec.hostname.empty()) return spec.hostname;
    if (!spec.name.empty()) return spec.name;
    if (spec.labels.contains(std::string(kForkLabel)) && spec.id.size() > kForkDigits)
        return "fork-" + spec.id.substr(spec.id.size() - kForkDigits);
    return "sandbox";
}

std::string to_string(const Template& root)
{
    switch (root.kind) {
    case Template::Kind::Host: return "host";
    case Template::Kind::Live: return "live";
    case Template::Kind::Directory: return "dir:" + root.path;
    case Template::Kind::Tar: return "tar:" + root.path;
    case Template::Kind::Oci: return "oci:" + root.path + (root.tag.empty() ? "" : ":" + root.tag);
    case Template::Kind::Image: return "image:" + root.path;
    }
    return "host";
}

Result<Template> parse_template(std::string_view text)
{
    if (text == "host") return Template{};
    if (text == "live") return Template{.kind = Template::Kind::Live, .path = {}, .tag = {}};
    for (const std::string_view prefix : {"oci:", "oci-archive:", "docker-archive:"})
        if (text.starts_with(prefix)) return parse_image(text.substr(prefix.size()));
    if (text.starts_with("image:")) return parse_image_name(text.substr(6));
    const bool dir = text.starts_with("dir:");
    const bool tar = text.starts_with("tar:");
    const std::string path(dir || tar ? text.substr(4) : text);
    if (path.empty() || path.find('\0') != std::string::npos)
        return fail(Code::Invalid, "bad template '{}': {}", printable(text, 80), kTemplates);
    auto resolved = resolve(path);
    if (!resolved) {
        if (resolved.error().code == Code::NotFound && !dir && !tar && path.find('/') == std::string::npos)
            return fail(Code::NotFound, "no template '{}': {}", printable(path, 80), kTemplates);
        return std::unexpected(std::move(resolved).error());
    }
    struct stat st{};
    if (::stat(resolved->c_str(), &st) != 0) return fail_errno("template {}", *resolved);
    Template out{.kind = Template::Kind::Tar, .path = *resolved, .tag = {}};
    if (S_ISREG(st.st_mode) && !dir) return out;
    if (!S_ISDIR(st.st_mode) || tar)
        return fail(Code::Invalid, "template {} is neither a directory nor a tar file", printable(text));
    const bool layout = !dir && ::access((*resolved + "/oci-layout").c_str(), F_OK) == 0;
    out.kind = layout ? Template::Kind::Oci : Template::Kind::Directory;
    return out;
}

std::string_view to_string(Mount::Mode mode) noexcept
{
    switch (mode) {
    case Mount::Mode::ReadOnly: return "ro";
    case Mount::Mode::ReadWrite: return "rw";
    case Mount::Mode::Copy: return "copy";
    }
    return "ro";
}

Result<Mount> parse_mount(std::string_view text, std::string_view cwd)
{
    std::string_view rest = text;
    const auto mode = take_mode(rest);
    const auto colon = rest.find(':');
    if (colon == std::string_view::npos || colon == 0 || colon + 1 == rest.size())
        return fail(Code::Invalid, "bad mount '{}': write it like /data:/data:ro", printable(text, 120));
    const std::string_view target = rest.substr(colon + 1);
    if (target.front() != '/' || target.find(':') != std::string_view::npos)
        return fail(Code::Invalid, "bad mount '{}': the target must be an absolute path",
                    printable(text, 120));
    Mount mount;
    BERTH_TRY(mount.source, absolute(rest.substr(0, colon), cwd));
    BERTH_TRY(mount.target, policy::normalise(target));
    mount.mode = mode.value_or(Mount::Mode::ReadOnly);
    return mount;
}

Result<Mount> parse_workspace(std::string_view text, std::string_view cwd)
{
    std::string_view rest = text;
    const auto mode = take_mode(rest);
    Mount mount;
    BERTH_TRY(mount.source, absolute(rest, cwd));
    mount.target = mount.source;
    mount.mode = mode.value_or(Mount::Mode::ReadWrite);
    mount.workspace = true;
    return mount;
}

Status validate_env(const std::map<std::string, std::string>& env)
{
    std::size_t total = 0;
    for (const auto& [name, value] : env) {
        if (name.empty() || name.find_first_of(std::string_view("=\0", 2)) != std::string::npos)
            return fail(Code::Invalid, "bad environment variable name '{}'", printable(name, 60));
        if (value.find('\0') != std::string::npos)
            return fail(Code::Invalid, "environment variable {} holds a NUL byte", printable(name, 60));
        const std::size_t size = name.size() + value.size() + 2;
        if (size > kMaxVariable)
            return fail(Code::Invalid,
                        "environment variable {} is {} bytes long; the kernel takes {} at most",
                        printable(name, 60), size, kMaxVariable);
        total += size + sizeof(char*);
    }
    if (total > kMaxEnvironment)
        return fail(Code::Invalid, "the environment is {} bytes long; {} at most", total, kMaxEnvironment);
    return {};
}

Status validate(const SandboxSpec& spec)
{
    std::set<std::string> targets;
    for (const auto& mount : spec.mounts) {
        // Otherwise "/mnt/../proc" would be no reserved place, and "/a" and "/a/" two.
        BERTH_TRY(const auto normal, policy::normalise(mount.target));
        if (normal != mount.target)
            return fail(Code::Invalid, "the target '{}' of mount {} is not a plain absolute path",
                        printable(mount.target), printable(mount.source));
        BERTH_CHECK(check_target(mount.target, mount.source));
        if (!targets.insert(mount.target).second)
            return fail(Code::Invalid, "two mounts on {}", printable(mount.target));
        struct stat st{};
        if (::lstat(mount.source.c_str(), &st) != 0)
            return fail_errno("mount source {}", printable(mount.source));
        if (S_ISLNK(st.st_mode))
            return fail(Code::Invalid, "mount source {} is a symbolic link: name what it points to",
                        printable(mount.source));
        if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
            return fail(Code::Invalid, "mount source {} is neither a directory nor a file",
                        printable(mount.source));
        if (mount.source == "/")
            return fail(Code::Invalid,
                        "cannot mount the host's / into a sandbox: name the directories it needs");
    }
    BERTH_CHECK(validate_volumes(spec));
    BERTH_CHECK(validate_env(spec.env));
    if (!spec.name.empty()) BERTH_CHECK(check_sandbox_name(spec.name));
    if (!spec.hostname.empty()) BERTH_CHECK(check_label("host name", spec.hostname));
    if (!spec.workdir.empty()) {
        BERTH_TRY(const auto normal, policy::normalise(spec.workdir));
        if (normal != spec.workdir)
            return fail(Code::Invalid, "working directory '{}' is not a plain absolute path",
                        printable(spec.workdir));
    }
    return {};
}

} // namespace berth

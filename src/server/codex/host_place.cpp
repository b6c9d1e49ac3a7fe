// Resolution for file operations on the host. It protects what the intent does not grant from whoever sends
// paths, and from a command that changes links and directories meanwhile: what is judged is what was opened.
#include "server/codex/host_place.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>

#include <algorithm>
#include <climits>

#include "base/strings.hpp"
#include "policy/target.hpp"
#include "server/codex/binder.hpp"
#include "server/codex/real_paths.hpp"

namespace berth::codex::files {

namespace {

using policy::Access;
using policy::at_or_below;

constexpr int kMaxTries = 64;
constexpr int kMaxLinks = 40; // the kernel's own bound

/// A sandbox has its own of these, which nobody outside can show.
bool of_the_kernel(std::string_view real)
{
    return std::ranges::any_of(std::initializer_list<std::string_view>{"/proc", "/sys", "/dev"},
                               [&](std::string_view top) { return at_or_below(real, top); });
}

/// The way to something that is granted is there, even if nothing else of it is.
bool leads_to_granted(const Bound& bound, std::string_view real)
{
    return std::ranges::any_of(bound.files.rules, [&](const policy::BoundRule& rule) {
        return rule.access != Access::Deny && !rule.path.empty() && rule.path != real &&
               at_or_below(rule.path, real);
    });
}

/// A protected name on the way that is a link: what lies behind it has another name, and may be written by
/// that one.
bool leads_through_protected(const Bound& bound, const std::string& spelled, std::string_view real)
{
    for (auto slash = spelled.find('/'); slash != std::string::npos;) {
        const auto next = spelled.find('/', slash + 1);
        const auto name = std::string_view(spelled).substr(slash + 1, next - slash - 1);
        if (std::ranges::find(kProtectedNames, name) != std::end(kProtectedNames)) {
            const auto above = RealPaths{}.nearest(slash == 0 ? "/" : spelled.substr(0, slash));
            const auto there = fmt::format("{}/{}", above == "/" ? "" : above, name);
            if (!at_or_below(real, there) && bound.decide(above) == Access::Write &&
                bound.decide(there) != Access::Write)
                return true;
        }
        slash = next;
    }
    return false;
}

Access access_at(const Bound& bound, const std::string& spelled, const std::string& real)
{
    if (!bound.confined) return Access::Write;
    if (of_the_kernel(real)) return Access::Deny;
    // What runs on the host keeps its sockets and secrets there: only what was named is shown.
    const auto* const mount = bound.mount_of(real);
    if (at_or_below(real, "/run") && (mount == nullptr || !at_or_below(mount->target, "/run")))
        return Access::Deny;
    for (const auto& rule : bound.files.rules)
        if (rule.access == Access::Deny && !rule.pattern.empty() &&
            policy::glob_covers(rule.pattern, spelled))
            return Access::Deny;
    // A name in a place that is denied leads nowhere, whatever lies behind it.
    if (bound.decide(spelled) == Access::Deny && !leads_to_granted(bound, spelled) &&
        bound.files.decide("/") != Access::Deny)
        return Access::Deny;
    const auto access = bound.decide(real);
    return access == Access::Write && leads_through_protected(bound, spelled, real) ? Access::Read : access;
}

/// Whether a rule of the intent denies it, rather than none granting it.
bool denied_by_name(const Bound& bound, std::string_view path)
{
    return std::ranges::any_of(bound.files.rules, [&](const policy::BoundRule& rule) {
        if (rule.access != Access::Deny) return false;
        if (!rule.pattern.empty()) return policy::glob_covers(rule.pattern, path);
        return rule.path != "/" && at_or_below(path, rule.path);
    });
}

/// What a process hears of something denied. Where only some places are shown, the others are not there.
std::unexpected<Error> denied(const Bound& bound, const std::string& spelled, const std::string& real)
{
    const bool absent = bound.files.decide("/") == Access::Deny && !denied_by_name(bound, spelled) &&
                        !denied_by_name(bound, real) && !leads_to_granted(bound, real);
    return refused(absent ? ENOENT : EACCES, spelled);
}

/// A refusal of the kernel's, where it tells nothing that is not shown: whether something is there, and what,
/// is itself something to know.
std::unexpected<Error> refused_there(const Bound& bound, int number, const std::string& spelled,
                                     const std::string& real)
{
    if (access_at(bound, spelled, real) == Access::Deny && !leads_to_granted(bound, real))
        return denied(bound, spelled, real);
    return refused(number, spelled);
}

/// Where a path leads that cannot be opened: also by links behind which nothing is.
std::string ends_at(std::string path)
{
    for (int links = 0; links < kMaxLinks; ++links) {
        RealPaths real;
        std::string there = path;
        if (path == "/") return path;
        while (there != "/" && !real.of(there)) there.resize(std::max<std::size_t>(there.rfind('/'), 1));
        const std::string base = there == "/" ? "" : *real.of(there);
        const std::string rest = path.substr(there == "/" ? 0 : there.size()); // empty, or "/name…"
        const auto next = std::min(rest.find('/', 1), rest.size());
        char text[PATH_MAX];
        const ssize_t n = ::readlink((base + rest.substr(0, next)).c_str(), &text[0], sizeof text);
        if (rest.empty() || n <= 0) return base + rest;
        const std::string target(&text[0], static_cast<std::size_t>(n));
        path = target.starts_with('/') ? target : fmt::format("{}/{}", base, target);
        path += rest.substr(next);
    }
    return path;
}

Result<std::string> path_of(int object, const std::string& path)
{
    char buffer[PATH_MAX];
    const std::string link = fmt::format("/proc/thread-self/fd/{}", object);
    const ssize_t n = ::readlink(link.c_str(), &buffer[0], sizeof buffer);
    if (n < 0) return fail_errno("looking at {}", printable(path));
    if (n == static_cast<ssize_t>(sizeof buffer) || buffer[0] != '/') return refused(ENOENT, path);
    std::string real(&buffer[0], static_cast<std::size_t>(n));
    // A file may really be called so; then its name exists.
    if (real.ends_with(" (deleted)") && ::faccessat(AT_FDCWD, real.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) != 0)
        return refused(ENOENT, path);
    return real;
}

/// Whether everybody on this machine may reach it, and read it where it is to be read.
bool open_to_strangers(const std::string& real, const struct stat& object, Need need)
{
    for (auto slash = real.find('/', 1); slash != std::string::npos; slash = real.find('/', slash + 1)) {
        struct stat st{};
        if (::lstat(real.substr(0, slash).c_str(), &st) != 0 || !S_ISDIR(st.st_mode) ||
            (st.st_mode & S_IXOTH) == 0)
            return false;
    }
    return need == Need::Sight || (object.st_mode & S_IROTH) != 0;
}

/// Whoever acts has the rights of the owner of one mount; by a link that was changed meanwhile the path may
/// have led out of it, where a process would be a stranger.
bool within_rights(const Bound& bound, const Found& found, Need need)
{
    if (!bound.acting) return true;
    if (bound.mount_of(found.real) != nullptr && bound.rights_at(found.real) == bound.acting) return true;
    return open_to_strangers(found.real, found.st, need);
}

} // namespace

std::unexpected<Error> refused(int number, const std::string& path)
{
    return fail_with(number, "{}", printable(path));
}

Result<Found> find(const Bound& bound, const std::string& path, Follow follow, Need need)
{
    open_how how{};
    how.flags = O_PATH | O_CLOEXEC;
    how.resolve = RESOLVE_NO_MAGICLINKS | (follow == Follow::No ? RESOLVE_NO_SYMLINKS : 0);
    Found out;
    for (int tries = 0; tries < kMaxTries; ++tries) {
        out.object.reset(static_cast<int>(::syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof how)));
        if (out.object || errno != EAGAIN) break;
    }
    if (!out.object) {
        const int number = errno;
        if (!bound.confined) return refused(number, path);
        return refused_there(bound, number, path, follow == Follow::Yes ? ends_at(path) : path);
    }
    if (::fstat(out.object.get(), &out.st) != 0) return fail_errno("looking at {}", printable(path));
    BERTH_TRY(out.real, path_of(out.object.get(), path));
    if (!within_rights(bound, out, need)) return refused_there(bound, EACCES, path, out.real);
    return out;
}

Result<Spot> find_spot(const Bound& bound, const std::string& path, Follow follow)
{
    const auto slash = path.rfind('/');
    Spot out;
    out.name = path.substr(slash + 1);
    if (out.name.empty()) return refused(EBUSY, path);
    BERTH_TRY(out.directory, find(bound, slash == 0 ? "/" : path.substr(0, slash), follow));
    if (!S_ISDIR(out.directory.st.st_mode)) return refused_there(bound, ENOTDIR, path, out.directory.real);
    out.real = (out.directory.real == "/" ? "" : out.directory.real) + "/" + out.name;
    return out;
}

Status may_read(const Bound& bound, const std::string& spelled, const std::string& real)
{
    if (access_at(bound, spelled, real) == Access::Deny) return denied(bound, spelled, real);
    return {};
}

Status may_write(const Bound& bound, const std::string& spelled, const std::string& real)
{
    switch (access_at(bound, spelled, real)) {
    case Access::Deny: return denied(bound, spelled, real);
    case Access::Read: return refused(EROFS, spelled);
    case Access::Write: return {};
    }
    return refused(EACCES, spelled);
}

Status may_see(const Bound& bound, const std::string& spelled, const std::string& real)
{
    if (!bound.confined || leads_to_granted(bound, real)) return {};
    return may_read(bound, spelled, real);
}

Result<UniqueFd> reopen(int object, int flags, const std::string& path)
{
    const std::string link = fmt::format("/proc/thread-self/fd/{}", object);
    UniqueFd fd(::open(link.c_str(), flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (!fd) return refused(errno, path);
    return fd;
}

} // namespace berth::codex::files

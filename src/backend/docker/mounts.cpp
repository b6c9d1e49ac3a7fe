#include "backend/docker/mounts.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <set>

#include "base/strings.hpp"
#include "sys/way_down.hpp"

namespace berth::docker {

namespace {

using keeping::MountSource;
using keeping::Pin;

/// The directory that a source is, or that its file lies in.
struct Place {
    UniqueFd fd;
    std::string path;
};

Result<Place> place_of(const MountSource& source)
{
    Place out{.fd = UniqueFd(::fcntl(source.fd.get(), F_DUPFD_CLOEXEC, 0)), .path = source.pin.path};
    if (source.file) {
        out.path.resize(std::max<std::size_t>(out.path.rfind('/'), 1));
        out.fd.reset(::open(out.path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    }
    if (!out.fd) return fail_errno("mount source {}", printable(source.pin.path));
    return out;
}

Status refuse_state(const InstanceDirs& dirs, const MountSource& source)
{
    const UniqueFd state(::openat(dirs.fd(), "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
    char real[PATH_MAX];
    if (!state || ::realpath(dirs.path("..").c_str(), &real[0]) == nullptr)
        return fail_errno("opening the state directory");
    BERTH_TRY(const auto place, place_of(source));
    BERTH_TRY(const auto within, sys::way_down(state.get(), place.fd.get(), place.path));
    BERTH_TRY(const auto around, sys::way_down(place.fd.get(), state.get(), &real[0]));
    if (!within && (!around || source.file)) return {};
    return fail(Code::Denied,
                "mount source {} would show berth's own state directory {} inside: mount something beside "
                "it, or use --backend local, which hides it",
                printable(source.pin.path), printable(&real[0]));
}

/// Who may write above a source can put a link to anything in its place, in the moment before the engine
/// looks.
Status refuse_loose(const SandboxSpec& spec, const std::vector<MountSource>& sources, std::size_t i)
{
    BERTH_TRY(const auto place, place_of(sources[i]));
    for (std::size_t j = 0; j < sources.size(); ++j) {
        if (j == i || spec.mounts[j].mode != Mount::Mode::ReadWrite || sources[j].file) continue;
        BERTH_TRY(const auto way, sys::way_down(sources[j].fd.get(), place.fd.get(), place.path));
        if (way && (sources[i].file || !way->empty()))
            return fail(Code::Denied,
                        "mount {}: its source {} lies in {}, which the sandbox may write at {}, so it could "
                        "put a link to anything in its place: mount that one alone or :ro, or use --backend "
                        "local",
                        printable(spec.mounts[i].target), printable(sources[i].pin.path),
                        printable(sources[j].pin.path), printable(spec.mounts[j].target));
    }
    return {};
}

} // namespace

Result<std::vector<Pin>> check_mounts(const Where& where, const SandboxSpec& spec,
                                      const std::vector<Pin>& pins)
{
    std::vector<MountSource> sources;
    for (std::size_t i = 0; i < spec.mounts.size(); ++i) {
        BERTH_TRY(auto source, keeping::open_pinned(spec.mounts[i], pins.at(i)));
        BERTH_CHECK(refuse_state(where.dirs, source));
        BERTH_CHECK(keeping::refuse_engines(source, where.engine.place().socket));
        sources.push_back(std::move(source));
    }
    BERTH_CHECK(keeping::check_points(spec, sources));
    std::vector<Pin> out;
    for (std::size_t i = 0; i < sources.size(); ++i) {
        BERTH_CHECK(refuse_loose(spec, sources, i));
        out.push_back(sources[i].pin);
    }
    return out;
}

Result<UniqueFd> open_shown(int root, const std::string& target)
{
    open_how how{};
    how.flags = O_PATH | O_CLOEXEC;
    how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
    UniqueFd fd(static_cast<int>(::syscall(SYS_openat2, root, target.c_str(), &how, sizeof how)));
    if (!fd) return fail_errno("opening {} of the container", printable(target));
    return fd;
}

Status check_shown(int pid, const SandboxSpec& spec, const std::vector<Pin>& pins)
{
    if (spec.mounts.empty()) return {};
    const UniqueFd root(::open(fmt::format("/proc/{}/root", pid).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!root) return fail_errno("opening the root of process {}", pid);
    std::set<std::uint64_t> mounts;
    for (std::size_t i = 0; i < spec.mounts.size(); ++i) {
        const Mount& mount = spec.mounts[i];
        BERTH_TRY(const auto pinned, keeping::open_pinned(mount, pins.at(i)));
        BERTH_TRY(const auto shown, open_shown(root.get(), mount.target));
        struct stat theirs{};
        struct stat ours{};
        struct statx more{};
        if (::fstat(shown.get(), &theirs) != 0 || ::fstat(pinned.fd.get(), &ours) != 0 ||
            ::statx(shown.get(), "", AT_EMPTY_PATH, STATX_MNT_ID, &more) != 0)
            return fail_errno("looking at {} of the container", printable(mount.target));
        // The mount itself, and each its own: a link inside could lead to the right thing past the wrong one.
        const bool itself = (more.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0 &&
                            (more.stx_mask & STATX_MNT_ID) != 0 && mounts.insert(more.stx_mnt_id).second;
        if (itself && theirs.st_ino == ours.st_ino && theirs.st_dev == ours.st_dev) continue;
        return fail(Code::Denied,
                    "the container of {} shows something else at {} than {}: nothing is run in it; berth "
                    "stop and start it anew",
                    spec.id, printable(mount.target), printable(pinned.pin.path));
    }
    return {};
}

} // namespace berth::docker

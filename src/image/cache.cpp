// Templates are shared by all sandboxes of one owner, with real ids on disk: the directory is
// closed to everybody else (0700), and what another user owns is never used.

#include "image/cache.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cstdio> // renameat2
#include <ctime>
#include <thread>

#include "base/clock.hpp"
#include "base/hooks.hpp"
#include "base/io.hpp"
#include "base/scope_exit.hpp"
#include "sys/remove_tree.hpp"

namespace berth::image {

namespace {

using namespace std::chrono_literals;

constexpr auto kLongestMake = 15min;
constexpr auto kLookAgain = 10ms;
constexpr Bytes kLargestReady = 4_MiB;
constexpr std::time_t kTouchAfter = 3600; // seconds: the disk is not written to by every use

Result<UniqueFd> open_readable(int dir, const std::string& name)
{
    UniqueFd fd(::openat(dir, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd) return fail_errno("opening directory {}", name);
    return fd;
}

} // namespace

Result<Ids> ids_possible_in(int dir)
{
    if (::geteuid() != 0) return Ids::Maker;
    static constexpr char kProbe[] = "ids-probe";
    UniqueFd file(::openat(dir, kProbe, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return fail_errno("creating {}", kProbe);
    ScopeExit remove([&] { ::unlinkat(dir, kProbe, 0); });
    // Root of a user namespace with a single id is an ordinary user as far as files go.
    return ::fchown(file.get(), 1000, 1000) == 0 ? Ids::Sandbox : Ids::Maker;
}

Result<Cache> Cache::open(const std::string& path)
{
    if (path.empty() || path.front() != '/')
        return fail(Code::Invalid, "cache directory '{}' is not an absolute path", path);
    auto dir = open_dir(path);
    if (!dir && dir.error().code == Code::NotFound) {
        BERTH_CHECK(make_dirs(path, 0700));
        dir = open_dir(path);
    }
    if (!dir) return std::unexpected(std::move(dir).error());

    struct stat st{};
    if (::fstat(dir->get(), &st) != 0) return fail_errno("looking at {}", path);
    if (st.st_uid != ::geteuid())
        return fail(Code::Denied, "cache directory {} belongs to uid {}, not to uid {}", path, st.st_uid,
                    ::geteuid());
    if ((st.st_mode & 077) != 0 && ::fchmodat(dir->get(), ".", 0700, 0) != 0)
        return fail_errno("closing {} to others", path);
    return Cache(path, *std::move(dir));
}

Result<std::optional<std::string>> Cache::find(const std::string& name) const
{
    auto text = read_file_at(dir_.get(), name + "/ready", kLargestReady);
    if (text) return *std::move(text);
    if (text.error().code == Code::NotFound) return std::nullopt;
    return std::unexpected(std::move(text).error().while_doing("looking into " + path_));
}

Result<UniqueFd> Cache::hold(const std::string& name) const
{
    BERTH_TRY(auto dir, open_readable(dir_.get(), name));
    struct stat held{};
    struct stat named{};
    // Between the two somebody may have taken it away.
    if (::flock(dir.get(), LOCK_SH | LOCK_NB) != 0 || ::fstat(dir.get(), &held) != 0 ||
        ::fstatat(dir_.get(), name.c_str(), &named, AT_SYMLINK_NOFOLLOW) != 0 ||
        held.st_ino != named.st_ino || held.st_dev != named.st_dev)
        return fail(Code::NotFound, "{}/{} is being collected", path_, name);
    return dir;
}

Result<std::optional<std::string>> Cache::use(const std::string& name) const
{
    const auto held = hold(name);
    if (!held && held.error().code == Code::NotFound) return std::nullopt;
    if (!held) return std::unexpected(held.error());
    struct stat ready{};
    if (::fstatat(held->get(), "ready", &ready, AT_SYMLINK_NOFOLLOW) == 0 &&
        ready.st_mtim.tv_sec + kTouchAfter < ::time(nullptr))
        (void)::utimensat(held->get(), "ready", nullptr, AT_SYMLINK_NOFOLLOW);
    return find(name);
}

Result<CacheLock> Cache::lock(const std::string& kind, const Progress& progress) const
{
    const std::string name = kind + ".lock";
    UniqueFd file(
        ::openat(dir_.get(), name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600));
    if (!file) return fail_errno("opening {}/{}", path_, name);

    const SteadyTime deadline = system_clock().steady() + kLongestMake;
    for (bool told = false; ::flock(file.get(), LOCK_EX | LOCK_NB) != 0;) {
        if (errno == EINTR) continue;
        if (errno != EWOULDBLOCK) return fail_errno("locking {}/{}", path_, name);
        if (system_clock().steady() > deadline)
            return fail(Code::DeadlineExceeded, "another process has been holding {}/{} for {} minutes",
                        path_, name, kLongestMake.count());
        if (!told && progress) progress("waiting for another process that makes template '" + kind + "'");
        told = true;
        std::this_thread::sleep_for(kLookAgain);
    }
    return CacheLock{.kind = kind, .file = std::move(file)};
}

Status Cache::make(const CacheLock& lock, const std::string& name, const Fill& fill) const
{
    const std::string temporary = lock.kind + ".tmp";
    BERTH_CHECK(sys::remove_tree(dir_.get(), temporary));
    if (::mkdirat(dir_.get(), temporary.c_str(), 0700) != 0)
        return fail_errno("creating {}/{}", path_, temporary);
    ScopeExit undo([&] { static_cast<void>(sys::remove_tree(dir_.get(), temporary)); });
    hooks::kill_point("template:begun");

    BERTH_TRY(const UniqueFd dir, open_readable(dir_.get(), temporary));
    BERTH_TRY(const std::string text, fill(dir.get()));
    hooks::kill_point("template:filled");
    BERTH_CHECK(replace_file_at(dir.get(), "ready", text));
    // After a power cut `ready` must not stand beside files that never reached the disk.
    if (::syncfs(dir.get()) != 0) return fail_errno("syncing {}/{}", path_, temporary);
    hooks::kill_point("template:before-rename");

    // Under the final name without `ready`: nothing of ours leaves such a thing behind.
    BERTH_CHECK(sys::remove_tree(dir_.get(), name));
    if (::renameat2(dir_.get(), temporary.c_str(), dir_.get(), name.c_str(), RENAME_NOREPLACE) != 0)
        return fail_errno("renaming {} to {} in {}", temporary, name, path_);
    undo.dismiss();
    hooks::kill_point("template:renamed");

    BERTH_TRY(const UniqueFd parent, open_readable(dir_.get(), "."));
    if (::fsync(parent.get()) != 0) return fail_errno("syncing {}", path_);
    return {};
}

Result<bool> Cache::remove_unfinished(const std::string& kind) const
{
    const std::string temporary = kind + ".tmp";
    if (::faccessat(dir_.get(), temporary.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) != 0) return false;
    const std::string name = kind + ".lock";
    const UniqueFd file(
        ::openat(dir_.get(), name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0600));
    if (!file) return fail_errno("opening {}/{}", path_, name);
    if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return false;
    BERTH_CHECK(sys::remove_tree(dir_.get(), temporary));
    return true;
}

} // namespace berth::image

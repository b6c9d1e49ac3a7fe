#include "server/codex/host_files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <climits>

#include "base/io.hpp"
#include "base/strings.hpp"
#include "server/codex/host_place.hpp"

namespace berth::codex::files {

namespace {

constexpr mode_t kNewFile = 0644;
constexpr mode_t kNewDirectory = 0755;

std::int64_t milliseconds(const struct statx_timestamp& time)
{
    return time.tv_sec * 1000 + time.tv_nsec / 1'000'000;
}

std::unexpected<Error> not_regular(const std::string& path)
{
    return fail(Code::Invalid, "{} is not a regular file", printable(path));
}

/// Through a link that is the last name: the wire has a code of its own for it.
bool last_is_link(const Bound& bound, const std::string& path)
{
    const auto spot = find_spot(bound, path, Follow::No);
    struct stat st{};
    return spot &&
           ::fstatat(spot->directory.object.get(), spot->name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISLNK(st.st_mode);
}

enum class Old { Empty, Keep };

Result<UniqueFd> open_existing(const Bound& bound, const std::string& path, const Found& found, Old old)
{
    BERTH_CHECK(may_see(bound, path, found.real));
    if (S_ISDIR(found.st.st_mode)) return refused(EISDIR, path);
    if (!S_ISREG(found.st.st_mode)) return not_regular(path);
    BERTH_CHECK(may_write(bound, path, found.real));
    return reopen(found.object.get(), O_WRONLY | (old == Old::Empty ? O_TRUNC : 0), path);
}

/// Where a link leads whose directory was judged: the next path to look at.
Result<std::string> target_of(const Spot& spot, const std::string& path)
{
    char text[PATH_MAX];
    const ssize_t n = ::readlinkat(spot.directory.object.get(), spot.name.c_str(), &text[0], sizeof text);
    if (n < 0) return refused(errno, path);
    if (n == 0 || n == static_cast<ssize_t>(sizeof text)) return refused(ENAMETOOLONG, path);
    std::string to(&text[0], static_cast<std::size_t>(n));
    if (!to.starts_with('/')) to = (spot.directory.real == "/" ? "" : spot.directory.real) + "/" + to;
    return to;
}

Result<UniqueFd> open_to_write(const Bound& bound, std::string path, Follow follow, Old old)
{
    constexpr int kTries = 8; // somebody may make or remove it between two looks, and links lead to links
    for (int tries = 0; tries < kTries; ++tries) {
        auto found = find(bound, path, follow);
        if (found) return open_existing(bound, path, *found, old);
        if (found.error().sys.value() != ENOENT) return std::unexpected(std::move(found).error());
        BERTH_TRY(const auto spot, find_spot(bound, path, follow));
        BERTH_CHECK(may_write(bound, path, spot.real));
        UniqueFd made(::openat(spot.directory.object.get(), spot.name.c_str(),
                               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kNewFile));
        if (made) return made;
        if (errno != EEXIST) return refused(errno, path);
        struct stat st{};
        if (::fstatat(spot.directory.object.get(), spot.name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISLNK(st.st_mode)) {
            // It leads to nothing yet: what is made is there, and judged there.
            if (follow == Follow::No) return refused(ELOOP, path);
            BERTH_TRY(path, target_of(spot, path));
        }
    }
    return refused(EBUSY, path);
}

} // namespace

Result<Metadata> metadata(const Bound& bound, const std::string& path, Follow follow)
{
    auto found = find(bound, path, follow);
    if (!found) {
        if (found.error().sys.value() != ELOOP || follow == Follow::Yes)
            return std::unexpected(std::move(found).error());
        if (last_is_link(bound, path)) return fail(Code::Invalid, "path contains a symbolic link");
        return refused(ENOTDIR, path);
    }
    BERTH_CHECK(may_see(bound, path, found->real));
    struct statx st{};
    if (::statx(found->object.get(), "", AT_EMPTY_PATH, STATX_BASIC_STATS | STATX_BTIME, &st) != 0)
        return refused(errno, path);
    Metadata out{.directory = S_ISDIR(st.stx_mode),
                 .file = S_ISREG(st.stx_mode),
                 .size = st.stx_size,
                 .modified_ms = milliseconds(st.stx_mtime)};
    if ((st.stx_mask & STATX_BTIME) != 0) out.created_ms = milliseconds(st.stx_btime);
    struct stat name{};
    out.symlink = follow == Follow::Yes && ::lstat(path.c_str(), &name) == 0 && S_ISLNK(name.st_mode);
    return out;
}

Result<std::string> canonical(const Bound& bound, const std::string& path)
{
    BERTH_TRY(auto found, find(bound, path, Follow::Yes));
    BERTH_CHECK(may_see(bound, path, found.real));
    return std::move(found.real);
}

Result<UniqueFd> open(const Bound& bound, const std::string& path, OpenParams::Mode mode)
{
    if (mode == OpenParams::Mode::Replace) return open_to_write(bound, path, Follow::Yes, Old::Empty);
    BERTH_TRY(const auto found, find(bound, path, Follow::Yes));
    BERTH_CHECK(may_read(bound, path, found.real));
    if (!S_ISREG(found.st.st_mode)) return not_regular(path);
    return reopen(found.object.get(), O_RDONLY, path);
}

Result<std::string> read(const Bound& bound, const std::string& path, Follow follow)
{
    BERTH_TRY(const auto found, find(bound, path, follow));
    BERTH_CHECK(may_read(bound, path, found.real));
    if (!S_ISREG(found.st.st_mode)) return not_regular(path);
    BERTH_TRY(const auto file, reopen(found.object.get(), O_RDONLY, path));
    if (found.st.st_size > static_cast<off_t>(kReadLimit))
        return fail(Code::Exhausted, "{} has {} bytes; a message carries at most {}", printable(path),
                    found.st.st_size, kReadLimit);
    std::string out;
    out.resize(static_cast<std::size_t>(found.st.st_size) + 1); // one more shows that it has not grown
    std::size_t have = 0;
    for (;;) {
        const ssize_t n = ::pread(file.get(), out.data() + have, out.size() - have, static_cast<off_t>(have));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return refused(errno, path);
        have += static_cast<std::size_t>(n);
        if (n == 0) break;
        if (have < out.size()) continue;
        if (have > kReadLimit) return fail(Code::Exhausted, "{} keeps growing", printable(path));
        out.resize(have * 2);
    }
    out.resize(have);
    return out;
}

Status write(const Bound& bound, const std::string& path, std::string_view bytes, Follow follow)
{
    // Cut at the end, not at the beginning: some file systems write a file to disk when it is emptied and
    // filled again.
    BERTH_TRY(const auto file, open_to_write(bound, path, follow, Old::Keep));
    BERTH_CHECK(write_all(file.get(), bytes));
    if (::ftruncate(file.get(), static_cast<off_t>(bytes.size())) != 0) return refused(errno, path);
    return {};
}

Status make_directory(const Bound& bound, const std::string& path, bool recursive, Follow follow)
{
    std::vector<std::string> missing;
    std::string there = path;
    auto found = find(bound, there, follow);
    while (!found && found.error().sys.value() == ENOENT && there != "/") {
        const auto slash = there.rfind('/');
        missing.push_back(there.substr(slash + 1));
        there = slash == 0 ? "/" : there.substr(0, slash);
        if (!recursive && missing.size() > 1) return refused(ENOENT, path);
        found = find(bound, there, follow);
    }
    if (!found) return std::unexpected(std::move(found).error());
    BERTH_CHECK(may_see(bound, there, found->real));
    if (!S_ISDIR(found->st.st_mode)) return refused(missing.empty() ? EEXIST : ENOTDIR, path);
    if (missing.empty()) return recursive ? Status{} : refused(EEXIST, path);
    UniqueFd at = std::move(found->object);
    std::string real = std::move(found->real);
    for (auto name = missing.rbegin(); name != missing.rend(); ++name) {
        real = (real == "/" ? "" : real) + "/" + *name;
        BERTH_CHECK(may_write(bound, path, real));
        if (::mkdirat(at.get(), name->c_str(), kNewDirectory) != 0 && (errno != EEXIST || !recursive))
            return refused(errno, path);
        UniqueFd next(::openat(at.get(), name->c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (!next) return refused(errno, path);
        at = std::move(next);
    }
    return {};
}

Result<std::vector<Entry>> list(const Bound& bound, const std::string& path)
{
    BERTH_TRY(const auto found, find(bound, path, Follow::Yes));
    BERTH_CHECK(may_see(bound, path, found.real));
    const bool all = !bound.confined || bound.decide(found.real) != policy::Access::Deny;
    if (!S_ISDIR(found.st.st_mode)) return refused(ENOTDIR, path);
    BERTH_TRY(const auto directory, reopen(found.object.get(), O_RDONLY | O_DIRECTORY, path));
    BERTH_TRY(const auto names, list_names(directory.get()));
    if (names.size() > kMaxEntries)
        return fail(Code::Invalid, "{} has more than {} entries", printable(path), kMaxEntries);
    std::vector<Entry> out;
    for (const auto& name : names) {
        struct stat st{};
        if (::fstatat(directory.get(), name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) continue; // it went
        // Of a directory that is only the way to something, only the way shows.
        const std::string below = (found.real == "/" ? "" : found.real) + "/" + name;
        if (!all && !may_see(bound, below, below)) continue;
        if (S_ISLNK(st.st_mode)) {
            // One that leads to what is not shown leads nowhere.
            const auto target = find(bound, below, Follow::Yes, Need::Sight);
            if (!target || !may_see(bound, below, target->real)) continue;
            st = target->st;
        }
        out.push_back({.name = name, .directory = S_ISDIR(st.st_mode), .file = S_ISREG(st.st_mode)});
    }
    return out;
}

} // namespace berth::codex::files

// Operations on whole trees: each entry is judged by itself, since a rule may speak of something deep below.
#include <dirent.h>
#include <fcntl.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <set>

#include "base/clock.hpp"
#include "base/io.hpp"
#include "base/strings.hpp"
#include "policy/target.hpp"
#include "server/codex/host_place.hpp"

namespace berth::codex::files {

namespace {

constexpr int kMaxDepth = 256;
constexpr auto kWalkTime = std::chrono::seconds(10); ///< then what was found is the answer
constexpr off_t kPiece = off_t{1} << 30;

/// Nobody waits for the rest.
Status check_wanted(const Bound& bound, const std::string& path)
{
    if (bound.left.stop_requested()) return refused(ECANCELED, path);
    return {};
}

std::string below(const std::string& path, const std::string& name)
{
    return (path == "/" ? "" : path) + "/" + name;
}

Result<UniqueFd> open_directory(int parent, const std::string& name, const std::string& path)
{
    UniqueFd fd(::openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!fd) return refused(errno, path);
    return fd;
}

/// A directory that its owner has closed: whoever may remove it may open it. By descriptor, so that nothing
/// that takes its place is meant.
bool unlock(int parent, const std::string& name)
{
    const UniqueFd object(::openat(parent, name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    return object && ::chmod(fmt::format("/proc/thread-self/fd/{}", object.get()).c_str(), 0700) == 0;
}

Status remove_entry(const Bound& bound, int parent, const std::string& name, const std::string& real,
                    int depth)
{
    if (depth > kMaxDepth) return refused(ELOOP, real);
    BERTH_CHECK(check_wanted(bound, real));
    BERTH_CHECK(may_write(bound, real, real));
    struct stat st{};
    if (::fstatat(parent, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) return refused(errno, real);
    if (!S_ISDIR(st.st_mode)) {
        if (::unlinkat(parent, name.c_str(), 0) != 0) return refused(errno, real);
        return {};
    }
    auto opened = open_directory(parent, name, real);
    if (!opened && opened.error().sys.value() == EACCES && unlock(parent, name))
        opened = open_directory(parent, name, real);
    BERTH_TRY(const auto directory, std::move(opened));
    BERTH_TRY(const auto names, list_names(directory.get()));
    for (const auto& one : names)
        BERTH_CHECK(remove_entry(bound, directory.get(), one, below(real, one), depth + 1));
    if (::unlinkat(parent, name.c_str(), AT_REMOVEDIR) != 0) return refused(errno, real);
    return {};
}

/// All of what lies between two places of a file, at the same places of the other.
Status copy_range(const Bound& bound, int from, int to, off_t at, off_t end, const std::string& path)
{
    while (at < end) {
        BERTH_CHECK(check_wanted(bound, path));
        off_t in = at;
        off_t out = at;
        const auto size = static_cast<std::size_t>(std::min(end - at, kPiece));
        ssize_t n = ::copy_file_range(from, &in, to, &out, size, 0);
        if (n < 0 && (errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP)) {
            if (::lseek(to, at, SEEK_SET) < 0) return refused(errno, path);
            in = at;
            n = ::sendfile(to, from, &in, size);
        }
        if (n == 0) return {}; // it was cut meanwhile
        if (n < 0 && errno != EINTR) return refused(errno, path);
        if (n > 0) at += n;
    }
    return {};
}

/// What is in a file and no more: one that is nothing but a hole of many TB would take as long as the disk
/// lasts.
Status copy_contents(const Bound& bound, int from, int to, off_t size, const std::string& path)
{
    for (off_t at = 0; at < size;) {
        const off_t data = ::lseek(from, at, SEEK_DATA);
        if (data < 0 && errno == ENXIO) break;
        if (data < 0) return refused(errno, path);
        const off_t hole = ::lseek(from, data, SEEK_HOLE);
        if (hole < 0) return refused(errno, path);
        BERTH_CHECK(copy_range(bound, from, to, data, std::min(hole, size), path));
        at = hole;
    }
    if (size > 0) {
        if (::ftruncate(to, size) != 0) return refused(errno, path);
        return {};
    }
    for (;;) { // a file of the kernel's has no size
        BERTH_CHECK(check_wanted(bound, path));
        const ssize_t n = ::copy_file_range(from, nullptr, to, nullptr, kPiece, 0);
        if (n == 0) return {};
        if (n > 0 || errno == EINTR) continue;
        if (errno != EXDEV && errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP)
            return refused(errno, path);
        const ssize_t m = ::sendfile(to, from, nullptr, kPiece);
        if (m == 0) return {};
        if (m < 0 && errno != EINTR) return refused(errno, path);
    }
}

struct Side {
    int parent;
    std::string name;
    std::string real;
};

/// What is copied: a link has a text, everything else is open.
struct Source {
    struct stat st{};
    UniqueFd object;
    std::string link;
};

Result<std::string> read_link(const Side& from)
{
    char text[PATH_MAX];
    const ssize_t n = ::readlinkat(from.parent, from.name.c_str(), &text[0], sizeof text);
    if (n < 0) return refused(errno, from.real);
    if (n == static_cast<ssize_t>(sizeof text)) return refused(ENAMETOOLONG, from.real);
    return std::string(&text[0], static_cast<std::size_t>(n));
}

Result<Source> open_source(const Side& from)
{
    Source out;
    if (::fstatat(from.parent, from.name.c_str(), &out.st, AT_SYMLINK_NOFOLLOW) != 0)
        return refused(errno, from.real);
    if (S_ISLNK(out.st.st_mode)) {
        BERTH_TRY(out.link, read_link(from));
        return out;
    }
    if (S_ISDIR(out.st.st_mode)) {
        BERTH_TRY(out.object, open_directory(from.parent, from.name, from.real));
        return out;
    }
    if (S_ISREG(out.st.st_mode)) {
        out.object.reset(
            ::openat(from.parent, from.name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
        if (!out.object || ::fstat(out.object.get(), &out.st) != 0) return refused(errno, from.real);
    }
    if (!S_ISREG(out.st.st_mode)) // or it has become something else meanwhile
        return fail(Code::Invalid, "{} is neither a file, a directory nor a link", printable(from.real));
    return out;
}

Result<UniqueFd> make_directory_at(const Side& to, mode_t mode)
{
    if (::mkdirat(to.parent, to.name.c_str(), mode & 0777) != 0 && errno != EEXIST)
        return refused(errno, to.real);
    return open_directory(to.parent, to.name, to.real);
}

Status make_link(const Side& to, const std::string& text)
{
    if (::symlinkat(text.c_str(), to.parent, to.name.c_str()) != 0) return refused(errno, to.real);
    return {};
}

/// Not emptied before it is known: it may be the source itself, by another name.
Result<UniqueFd> open_target(const Side& to, mode_t mode)
{
    UniqueFd out(::openat(to.parent, to.name.c_str(),
                          O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, mode & 0777));
    if (!out) return refused(errno, to.real);
    return out;
}

Status copy_file(const Bound& bound, const Source& source, const Side& from, int target, const Side& to)
{
    struct stat made{};
    if (::fstat(target, &made) != 0 || !S_ISREG(made.st_mode)) return refused(EINVAL, to.real);
    if (source.st.st_ino == made.st_ino && source.st.st_dev == made.st_dev)
        return fail(Code::Invalid, "{} and {} are the same file", printable(from.real), printable(to.real));
    if (::ftruncate(target, 0) != 0) return refused(errno, to.real);
    return copy_contents(bound, source.object.get(), target, source.st.st_size, to.real);
}

/// Each end is touched with the rights of its own place. With those of the other one, whoever owns the
/// target could copy what it may not read.
Status copy_entry(const Bound& bound, const Side& from, const Side& to, int depth)
{
    if (depth > kMaxDepth) return refused(ELOOP, from.real);
    BERTH_CHECK(check_wanted(bound, from.real));
    BERTH_CHECK(may_read(bound, from.real, from.real));
    BERTH_CHECK(may_write(bound, to.real, to.real));
    BERTH_TRY(const auto source, with_rights_at(bound, from.real, [&] { return open_source(from); }));
    const mode_t mode = source.st.st_mode;
    if (S_ISLNK(mode)) return with_rights_at(bound, to.real, [&] { return make_link(to, source.link); });
    if (!S_ISDIR(mode)) {
        BERTH_TRY(const auto target, with_rights_at(bound, to.real, [&] { return open_target(to, mode); }));
        return copy_file(bound, source, from, target.get(), to);
    }
    BERTH_TRY(const auto target, with_rights_at(bound, to.real, [&] { return make_directory_at(to, mode); }));
    BERTH_TRY(const auto names, list_names(source.object.get()));
    for (const auto& name : names) {
        const Side one{.parent = source.object.get(), .name = name, .real = below(from.real, name)};
        const Side other{.parent = target.get(), .name = name, .real = below(to.real, name)};
        BERTH_CHECK(copy_entry(bound, one, other, depth + 1));
    }
    return {};
}

class Walker {
public:
    Walker(const Bound& bound, const WalkParams& params) : bound_(bound), params_(params) {}

    Result<WalkResult> run()
    {
        BERTH_TRY(const auto top, find(bound_, params_.path, Follow::Yes));
        BERTH_CHECK(may_read(bound_, params_.path, top.real));
        if (!S_ISDIR(top.st.st_mode)) return refused(ENOTDIR, params_.path);
        entered_.insert(top.real);
        queue_.push_back({params_.path, 0});
        while (!queue_.empty() && !out_.truncated) {
            const auto [path, depth] = queue_.front();
            queue_.pop_front();
            if (++directories_ > params_.max_directories || is_late()) {
                out_.truncated = true;
                break;
            }
            enter(path, depth);
        }
        return std::move(out_);
    }

private:
    void enter(const std::string& path, std::int64_t depth)
    {
        const auto entries = open_and_list(path);
        if (!entries) return fail_at(path, entries.error());
        for (const auto& name : entries->names) {
            if (is_late()) out_.truncated = true;
            if (out_.truncated) return;
            visit(*entries, path, name, depth);
        }
    }

    struct Opened {
        UniqueFd directory;
        std::string real;
        std::vector<std::string> names;
    };

    Result<Opened> open_and_list(const std::string& path)
    {
        BERTH_TRY(auto found, find(bound_, path, Follow::Yes));
        BERTH_CHECK(may_read(bound_, path, found.real));
        BERTH_TRY(auto directory, reopen(found.object.get(), O_RDONLY | O_DIRECTORY, path));
        BERTH_TRY(auto names, list_names(directory.get()));
        return Opened{
            .directory = std::move(directory), .real = std::move(found.real), .names = std::move(names)};
    }

    void visit(const Opened& in, const std::string& path, const std::string& name, std::int64_t depth)
    {
        const std::string one = below(path, name);
        struct stat st{};
        if (::fstatat(in.directory.get(), name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) return;
        bool is_directory = S_ISDIR(st.st_mode);
        std::string real = below(in.real, name);
        if (S_ISLNK(st.st_mode)) {
            // Links to files are never listed; those to directories only where they are followed.
            if (!params_.follow_directory_links) return;
            auto target = find(bound_, one, Follow::Yes);
            if (!target || !S_ISDIR(target->st.st_mode) || !may_read(bound_, one, target->real)) return;
            real = std::move(target->real);
            is_directory = true;
        } else if (!is_directory && !S_ISREG(st.st_mode)) {
            return;
        }
        if (!count(one)) return;
        out_.items.push_back({.path = one, .directory = is_directory});
        const bool hidden = params_.prune_hidden && name.starts_with('.');
        // By whatever names a directory is reached, it is entered once.
        if (is_directory && !hidden && depth + 1 <= params_.max_depth && entered_.insert(real).second)
            queue_.emplace_back(one, depth + 1);
    }

    [[nodiscard]] bool is_late() const
    {
        return bound_.left.stop_requested() || system_clock().steady() >= until_;
    }

    bool count(const std::string& path)
    {
        bytes_ += path.size() + kWalkItem;
        if (static_cast<std::int64_t>(out_.items.size()) < params_.max_entries && bytes_ <= kWalkBytes)
            return true;
        out_.truncated = true;
        return false;
    }

    void fail_at(const std::string& path, const Error& error)
    {
        bytes_ += path.size() + kWalkItem;
        if (bytes_ > kWalkBytes)
            out_.truncated = true;
        else
            out_.failures.push_back({.path = path, .message = error.message});
    }

    const Bound& bound_;
    const WalkParams& params_;
    WalkResult out_;
    std::deque<std::pair<std::string, std::int64_t>> queue_;
    std::set<std::string> entered_; ///< resolved
    std::int64_t directories_ = 0;
    std::size_t bytes_ = 0;
    SteadyTime until_ = system_clock().steady() + kWalkTime;
};

Result<Spot> find_removable(const Bound& bound, const std::string& path, Follow follow, struct stat& st)
{
    BERTH_TRY(auto spot, find_spot(bound, path, follow));
    BERTH_CHECK(may_write(bound, path, spot.real));
    // A name is taken out of a directory: what is granted in one that may not be written can be emptied, no
    // more.
    BERTH_CHECK(
        may_write(bound, path.substr(0, std::max<std::size_t>(path.rfind('/'), 1)), spot.directory.real));
    if (::fstatat(spot.directory.object.get(), spot.name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0)
        return refused(errno, path);
    return spot;
}

} // namespace

Status remove(const Bound& bound, const std::string& path, bool recursive, bool force, Follow follow)
{
    struct stat st{};
    const auto spot = find_removable(bound, path, follow, st);
    if (!spot && force && spot.error().sys.value() == ENOENT) return {};
    if (!spot) return std::unexpected(spot.error());
    const int parent = spot->directory.object.get();
    if (S_ISDIR(st.st_mode) && recursive) return remove_entry(bound, parent, spot->name, spot->real, 0);
    if (::unlinkat(parent, spot->name.c_str(), S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0) != 0)
        return refused(errno, path);
    return {};
}

Status copy(const Bound& bound, const Spot& source, const std::string& from, const std::string& to,
            bool recursive)
{
    BERTH_TRY(auto target, find_spot(bound, to, Follow::Yes));
    BERTH_CHECK(may_read(bound, from, source.real));
    BERTH_CHECK(may_write(bound, to, target.real));
    const Side one{.parent = source.directory.object.get(), .name = source.name, .real = source.real};
    const Side other{.parent = target.directory.object.get(), .name = target.name, .real = target.real};
    struct stat st{};
    BERTH_CHECK(with_rights_at(bound, source.real, [&]() -> Status {
        if (::fstatat(one.parent, one.name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0)
            return refused(errno, from);
        return {};
    }));
    if (S_ISDIR(st.st_mode)) {
        if (!recursive)
            return fail(Code::Invalid, "{} is a directory: recursive must be true", printable(from));
        if (policy::at_or_below(target.real, source.real))
            return fail(Code::Invalid, "{} cannot be copied into itself", printable(from));
    }
    return copy_entry(bound, one, other, 0);
}

Result<WalkResult> walk(const Bound& bound, const WalkParams& params) { return Walker(bound, params).run(); }

} // namespace berth::codex::files

#include "backend/local/protect.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>

#include "base/hooks.hpp"
#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/strings.hpp"

namespace berth::local {

namespace {

constexpr std::size_t kMaxVisited = 400'000;
constexpr const char* kRecordPrefix = "placeholder-";

bool within(std::string_view path, std::string_view dir)
{
    return path == dir || dir == "/" || (path.starts_with(dir) && path[dir.size()] == '/');
}

/// Opens a directory below `parent` following nothing and crossing no mount.
UniqueFd open_below(int parent, const char* name)
{
    open_how how{};
    how.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV;
    return UniqueFd(static_cast<int>(::syscall(SYS_openat2, parent, name, &how, sizeof how)));
}

/// Walks a host directory for protected names. The tree is the sandbox's to fill, so it is
/// bounded: more entries than we are willing to look at is a refusal, not a hole.
class Search {
public:
    Search(const std::vector<std::string>& names, std::vector<std::string>& found)
        : names_(names), found_(found)
    {
    }

    Status walk(UniqueFd dir, const std::string& inside, int depth)
    {
        if (depth > 64)
            return fail(Code::Exhausted, "{} is too deep to be searched for protected names",
                        printable(inside));
        DIR* stream = ::fdopendir(dir.get());
        if (stream == nullptr) return fail_errno("reading {}", printable(inside));
        const int fd = dir.release(); // the stream owns it now
        Status result;
        while (const dirent* entry = ::readdir(stream)) { // NOLINT(concurrency-mt-unsafe): our own stream
            const std::string name = entry->d_name;
            if (name == "." || name == "..") continue;
            if (++visited_ > kMaxVisited) {
                result = fail(Code::Exhausted,
                              "{} has more than {} entries: too many to be searched for protected names; "
                              "use a smaller workspace or a policy without them",
                              printable(inside), kMaxVisited);
                break;
            }
            const std::string path = inside + "/" + name;
            if (std::ranges::find(names_, name) != names_.end()) {
                if (entry->d_type != DT_LNK) found_.push_back(path);
                continue;
            }
            if (entry->d_type != DT_DIR) continue;
            UniqueFd below = open_below(fd, entry->d_name);
            if (!below) continue; // gone, or another file system, whose names a mount of its own would bring
            if (result = walk(std::move(below), path, depth + 1); !result) break;
        }
        ::closedir(stream);
        return result;
    }

private:
    const std::vector<std::string>& names_;
    std::vector<std::string>& found_;
    std::size_t visited_ = 0;
};

bool is_empty_dir(int dir)
{
    UniqueFd again(::openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR* stream = again ? ::fdopendir(again.get()) : nullptr;
    if (stream == nullptr) return false;
    (void)again.release(); // the stream owns it now
    bool empty = true;
    while (const dirent* entry = ::readdir(stream)) // NOLINT(concurrency-mt-unsafe): our own stream
        if (std::string_view name = entry->d_name; name != "." && name != "..") empty = false;
    ::closedir(stream);
    return empty;
}

/// Removes a placeholder if nobody else holds it. rmdir takes only an empty directory, so what
/// somebody put there meanwhile stays.
bool remove_if_last(int parent, const std::string& name, int lock)
{
    if (::flock(lock, LOCK_EX | LOCK_NB) != 0) return false;
    struct stat held{};
    struct stat now{};
    if (::fstat(lock, &held) != 0 || ::fstatat(parent, name.c_str(), &now, AT_SYMLINK_NOFOLLOW) != 0)
        return true;
    if (held.st_ino != now.st_ino || held.st_dev != now.st_dev) return true;
    return ::unlinkat(parent, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOTEMPTY || errno == ENOENT;
}

} // namespace

Result<ProtectedNames> ProtectedNames::hold(const Plan& plan)
{
    ProtectedNames held;
    held.state_ = plan.state->fd();
    const auto& names = plan.files.protected_names;
    if (names.empty()) return held;
    for (const Bind& bind : plan.binds) {
        if (bind.file || bind.mode != Mount::Mode::ReadWrite) continue;
        const bool writable = std::ranges::any_of(plan.files.rules, [&](const policy::BoundRule& rule) {
            return rule.access == policy::Access::Write && !rule.path.empty() &&
                   (within(bind.target, rule.path) || within(rule.path, bind.target));
        });
        if (!writable) continue;
        std::vector<std::string> found;
        Search search(names, found);
        UniqueFd top(::openat(bind.source.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (!top) return fail_errno("reading {}", printable(bind.target));
        BERTH_CHECK(search.walk(std::move(top), bind.target, 0));
        for (auto& path : found)
            if (plan.files.decide(path.substr(0, path.rfind('/'))) == policy::Access::Write)
                held.paths_.push_back(std::move(path));
        if (plan.files.decide(bind.target) != policy::Access::Write) continue;
        for (const auto& name : names)
            BERTH_CHECK(held.add_placeholder(*plan.state, bind.source.get(), name, bind.target + "/" + name));
    }
    return held;
}

Status ProtectedNames::add_placeholder(const StateDir& state, int source, const std::string& name,
                                       const std::string& inside)
{
    struct stat st{};
    const bool there = ::fstatat(source, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0;
    if (there && !S_ISDIR(st.st_mode)) return {};
    UniqueFd parent(::fcntl(source, F_DUPFD_CLOEXEC, 3));
    std::string record;
    if (!there) {
        // The record first: whoever finds it looks for a placeholder that may not be there yet.
        char path[4096];
        const std::string link = fmt::format("/proc/self/fd/{}", source);
        const ssize_t n = ::readlink(link.c_str(), &path[0], sizeof path);
        if (n <= 0 || n == static_cast<ssize_t>(sizeof path))
            return fail_errno("naming {}", printable(inside));
        record = kRecordPrefix + random_hex(8);
        const std::string text = std::string(&path[0], static_cast<std::size_t>(n)) + "\n" + name;
        BERTH_CHECK(replace_file_at(state.fd(), record, text));
        hooks::kill_point("placeholder recorded");
        struct stat top{};
        if (::mkdirat(source, name.c_str(), 0755) != 0 && errno != EEXIST) {
            ::unlinkat(state.fd(), record.c_str(), 0);
            return fail_errno("holding the protected name {}", printable(inside));
        }
        if (::geteuid() == 0 && ::fstat(source, &top) == 0)
            (void)::fchownat(source, name.c_str(), top.st_uid, top.st_gid, AT_SYMLINK_NOFOLLOW);
        hooks::kill_point("placeholder made");
        paths_.push_back(inside);
    }
    UniqueFd lock = open_below(source, name.c_str());
    // One that has content is nobody's placeholder and needs no lock: it cannot be removed by us.
    if (!lock || !is_empty_dir(lock.get())) return {};
    if (::flock(lock.get(), LOCK_SH | LOCK_NB) != 0)
        return fail(Code::Unavailable, "the placeholder {} is being removed: try again", printable(inside));
    placeholders_.push_back(
        {.parent = std::move(parent), .name = name, .lock = std::move(lock), .record = std::move(record)});
    return {};
}

std::vector<int> ProtectedNames::locks() const
{
    std::vector<int> fds;
    for (const auto& placeholder : placeholders_) fds.push_back(placeholder.lock.get());
    return fds;
}

ProtectedNames::~ProtectedNames()
{
    for (const auto& placeholder : placeholders_) {
        if (placeholder.record.empty()) continue; // somebody else's, or the user's own empty directory
        if (remove_if_last(placeholder.parent.get(), placeholder.name, placeholder.lock.get()))
            ::unlinkat(state_, placeholder.record.c_str(), 0);
    }
}

Result<std::size_t> ProtectedNames::sweep(const StateDir& state)
{
    UniqueFd dir(::openat(state.fd(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR* stream = dir ? ::fdopendir(dir.get()) : nullptr;
    if (stream == nullptr) return fail_errno("reading {}", state.path());
    (void)dir.release(); // the stream owns it now
    std::vector<std::string> records;
    while (const dirent* entry = ::readdir(stream)) // NOLINT(concurrency-mt-unsafe): our own stream
        if (std::string_view(entry->d_name).starts_with(kRecordPrefix)) records.emplace_back(entry->d_name);
    ::closedir(stream);
    std::size_t removed = 0;
    for (const auto& record : records) {
        const auto text = read_file_at(state.fd(), record);
        if (!text) continue;
        const auto lines = split(*text, '\n');
        if (lines.size() != 2) continue;
        UniqueFd parent(::open(lines[0].c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
        UniqueFd lock = parent ? open_below(parent.get(), lines[1].c_str()) : UniqueFd();
        if (lock && !remove_if_last(parent.get(), lines[1], lock.get())) continue;
        ::unlinkat(state.fd(), record.c_str(), 0);
        ++removed;
    }
    return removed;
}

} // namespace berth::local

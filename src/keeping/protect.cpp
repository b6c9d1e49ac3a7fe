#include "keeping/protect.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cstdlib>

#include "base/hooks.hpp"
#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/strings.hpp"
#include "keeping/lock.hpp"
#include "keeping/protected_search.hpp"
#include "sys/cgroup_maker.hpp"

namespace berth::keeping {

namespace {

constexpr int kAttempts = 64;
constexpr std::chrono::milliseconds
    kRemoval(100); // how long its last user has the lock of a placeholder alone
constexpr std::string_view kRecordPrefix = "placeholder-";
constexpr std::string_view kUnfinished = ".new"; // what replace_file_at writes before it renames

bool within(std::string_view path, std::string_view dir)
{
    return path == dir || dir == "/" || (path.starts_with(dir) && path[dir.size()] == '/');
}

/// A placeholder that root made belongs to the owner of the directory. He may have put something
/// else in its place by now: only an empty directory of root's is given away, by descriptor.
void give_to_owner(int source, const std::string& name)
{
    struct stat top{};
    struct stat made{};
    if (::geteuid() != 0 || ::fstat(source, &top) != 0) return;
    const UniqueFd dir = open_below(source, name.c_str());
    if (!dir || ::fstat(dir.get(), &made) != 0 || made.st_uid != 0 || has_content(dir.get())) return;
    (void)::fchown(dir.get(), top.st_uid, top.st_gid); // it holds the name whoever owns it
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

/// The writable directory of the host that a rule which takes something away lies in; null when there is
/// none.
const Shown* narrowed_by(const RuleSite& site, const policy::BoundRule& rule)
{
    if (rule.access == policy::Access::Write || rule.path.empty()) return nullptr;
    const Shown* around = nullptr; // the deepest
    for (const Shown& bind : site.shown)
        if (rule.path != bind.target && within(rule.path, bind.target) &&
            (around == nullptr || bind.target.size() > around->target.size()))
            around = &bind;
    const bool writable = around != nullptr && !around->file && around->mode == Mount::Mode::ReadWrite;
    return writable ? around : nullptr;
}

/// What a record of a placeholder says: NUL between the two, for a path may hold every other byte.
Result<std::string> record_of(int parent, const std::string& name)
{
    char path[4096];
    const std::string link = fmt::format("/proc/self/fd/{}", parent);
    const ssize_t n = ::readlink(link.c_str(), &path[0], sizeof path);
    if (n <= 0 || n == static_cast<ssize_t>(sizeof path)) return fail_errno("naming {}", printable(name));
    return std::string(&path[0], static_cast<std::size_t>(n)) + '\0' + name;
}

/// The names of the records, those that are being written among them.
Result<std::vector<std::string>> records_in(int state)
{
    UniqueFd dir(::openat(state, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR* stream = dir ? ::fdopendir(dir.get()) : nullptr;
    if (stream == nullptr) return fail_errno("reading the state directory");
    (void)dir.release(); // the stream owns it now
    std::vector<std::string> out;
    while (const dirent* entry = ::readdir(stream)) // NOLINT(concurrency-mt-unsafe): our own stream
        if (std::string_view(entry->d_name).starts_with(kRecordPrefix)) out.emplace_back(entry->d_name);
    ::closedir(stream);
    return out;
}

/// Whether a directory is somebody's placeholder. Asked with its lock held: it has its record until it is
/// gone.
Result<bool> is_recorded(int state, const std::string& wanted)
{
    BERTH_TRY(const auto records, records_in(state));
    return std::ranges::any_of(records, [&](const std::string& record) {
        const auto text = read_file_at(state, record);
        return text && *text == wanted;
    });
}

/// A temporary directory of this machine or of whoever runs us, and nobody's workspace.
bool is_temporary(const Shown& bind)
{
    const char* const own = std::getenv("TMPDIR"); // NOLINT(concurrency-mt-unsafe): nobody changes it
    return !bind.workspace &&
           (bind.target == "/tmp" || bind.target == "/var/tmp" || (own != nullptr && bind.path == own));
}

} // namespace

Result<ProtectedNames> ProtectedNames::hold(const RuleSite& site)
{
    ProtectedNames held;
    held.state_ = site.state;
    const auto& names = site.files.protected_names;
    const auto narrows = [&](const policy::BoundRule& rule) { return narrowed_by(site, rule) != nullptr; };
    if (names.empty() && std::ranges::none_of(site.files.rules, narrows)) return held;
    (void)sweep(held.state_); // what killed runs left; what cannot be looked at now is another time's
    for (const Shown& bind : site.shown) {
        if (names.empty() || bind.file || bind.mode != Mount::Mode::ReadWrite) continue;
        if (site.live && is_temporary(bind)) continue;
        const bool writable = std::ranges::any_of(site.files.rules, [&](const policy::BoundRule& rule) {
            return rule.access == policy::Access::Write && !rule.path.empty() &&
                   (within(bind.target, rule.path) || within(rule.path, bind.target));
        });
        if (!writable) continue;
        UniqueFd top(::openat(bind.source, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (!top) return fail_errno("reading {}", printable(bind.target));
        BERTH_TRY(auto found, find_protected(std::move(top), bind.target, site.files));
        for (auto& path : found) held.paths_.push_back(std::move(path));
        if (site.files.decide(bind.target) == policy::Access::Write)
            for (const auto& name : names)
                BERTH_CHECK(held.add_placeholder(bind.source, name, bind.target + "/" + name));
        for (const auto& rule : site.files.rules) BERTH_CHECK(held.hold_in_rule(site, bind, rule));
    }
    for (const auto& rule : site.files.rules) BERTH_CHECK(held.hold_name(site, rule));
    return held;
}

/// With nothing there to mount on, a command could make what a rule denies or makes read-only: the first part
/// of its path that does not exist gets a placeholder (in a live view). An empty directory on the way may be
/// somebody else's: it is locked, so that it stays when he ends, and his placeholder is as good as missing.
Status ProtectedNames::hold_name(const RuleSite& site, const policy::BoundRule& rule)
{
    const Shown* const around = narrowed_by(site, rule);
    if (around == nullptr) return {};
    UniqueFd at(::openat(around->source, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    int attempts = 0;
    for (std::size_t from = around->target.size() + 1; at && from <= rule.path.size();) {
        const auto slash = std::min(rule.path.find('/', from), rule.path.size());
        const std::string name = rule.path.substr(from, slash - from);
        const std::string inside = rule.path.substr(0, slash);
        UniqueFd next = open_below(at.get(), name.c_str());
        const bool missing = !next && errno == ENOENT;
        const bool empty = next && !has_content(next.get());
        if ((missing && site.live) || (empty && slash == rule.path.size()))
            return add_placeholder(at.get(), name, inside);
        if (empty) {
            UniqueFd lock(::fcntl(next.get(), F_DUPFD_CLOEXEC, 3));
            if (!keep(at.get(), name, std::move(lock), {})) {
                if (++attempts < kAttempts) continue;
                return fail(Code::Unavailable, "{} keeps being removed: try again", printable(inside));
            }
            BERTH_TRY(const auto record, record_of(at.get(), name));
            BERTH_TRY(const bool placeholder, is_recorded(state_, record));
            if (placeholder) {
                paths_.push_back(inside);
                return {};
            }
        }
        at = std::move(next);
        from = slash + 1;
    }
    return {};
}

/// Takes the lock of a directory that is to stay. False when it is not there any more.
bool ProtectedNames::keep(int source, const std::string& name, UniqueFd directory, std::string record)
{
    struct stat there{};
    struct stat locked{};
    if (!lock_within(directory.get(), Use::Shared, kRemoval) || ::fstat(directory.get(), &locked) != 0 ||
        ::fstatat(source, name.c_str(), &there, AT_SYMLINK_NOFOLLOW) != 0 || there.st_ino != locked.st_ino ||
        there.st_dev != locked.st_dev)
        return false;
    placeholders_.push_back({.lock = std::move(directory), .record = std::move(record)});
    return true;
}

/// Where writing begins below the top of a mount, the names are held as at the top.
Status ProtectedNames::hold_in_rule(const RuleSite& site, const Shown& bind, const policy::BoundRule& rule)
{
    if (rule.access != policy::Access::Write || rule.path == bind.target || !within(rule.path, bind.target) ||
        site.files.decide(rule.path) != policy::Access::Write ||
        site.files.decide(rule.path.substr(0, rule.path.rfind('/'))) == policy::Access::Write)
        return {};
    open_how how{};
    how.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    const std::string below = rule.path.substr(bind.target.size() + 1);
    const UniqueFd place(
        static_cast<int>(::syscall(SYS_openat2, bind.source, below.c_str(), &how, sizeof how)));
    if (!place && (errno == ENOENT || errno == ENOTDIR)) return {}; // a file, or nothing to be written
    if (!place) return fail_errno("opening {}", printable(rule.path));
    for (const auto& name : site.files.protected_names)
        BERTH_CHECK(add_placeholder(place.get(), name, rule.path + "/" + name));
    return {};
}

/// Writes the record, then makes the placeholder: whoever finds a record looks for a placeholder that
/// may not be there yet, and none is ever there without one.
Result<std::string> ProtectedNames::make_placeholder(int source, const std::string& name,
                                                     const std::string& inside) const
{
    BERTH_TRY(const auto text, record_of(source, name));
    // Named after us, so that nobody takes it for a dead one's before its placeholder is there.
    std::string record = std::string(kRecordPrefix) + sys::group_name(sys::this_process(), random_hex(8));
    BERTH_CHECK(replace_file_at(state_, record, text));
    hooks::kill_point("placeholder recorded");
    if (::mkdirat(source, name.c_str(), 0755) == 0) {
        give_to_owner(source, name);
    } else if (errno != EEXIST) {
        const int why = errno;
        ::unlinkat(state_, record.c_str(), 0);
        errno = why;
        return fail_errno("holding the protected name {}", printable(inside));
    }
    hooks::kill_point("placeholder made");
    return record;
}

/// Others come and go on the same directory: what was there a moment ago may be removed by its last
/// user before our lock is on it. Then it is made anew, never left unprotected.
Status ProtectedNames::add_placeholder(int source, const std::string& name, const std::string& inside)
{
    std::string record;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
        struct stat st{};
        const bool there = ::fstatat(source, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0;
        if (there && !S_ISDIR(st.st_mode)) return {};
        if (!there) {
            if (!record.empty()) ::unlinkat(state_, record.c_str(), 0);
            BERTH_TRY(record, make_placeholder(source, name, inside));
        }
        UniqueFd lock = open_below(source, name.c_str());
        if (!lock && errno == ENOENT) continue;
        if (!lock) return fail_errno("holding the protected name {}", printable(inside));
        if (std::ranges::find(paths_, inside) == paths_.end()) paths_.push_back(inside);
        // One that has content is nobody's placeholder and needs no lock: it cannot be removed by us.
        if (has_content(lock.get())) {
            if (!record.empty()) ::unlinkat(state_, record.c_str(), 0);
            return {};
        }
        if (keep(source, name, std::move(lock), record)) return {};
    }
    return fail(Code::Unavailable, "the placeholder {} keeps being removed: try again", printable(inside));
}

std::vector<int> ProtectedNames::locks() const
{
    std::vector<int> fds;
    fds.reserve(placeholders_.size());
    for (const auto& placeholder : placeholders_) fds.push_back(placeholder.lock.get());
    return fds;
}

void ProtectedNames::give_up() const
{
    for (const auto& placeholder : placeholders_) ::flock(placeholder.lock.get(), LOCK_UN);
}

ProtectedNames::~ProtectedNames()
{
    if (placeholders_.empty()) return;
    // A keeper holds the same open files, and a lock belongs to the open file: asked through our own
    // descriptors it would always be free. So they are let go, and asked for through new ones.
    // Our name comes off the records first: one of a live process whose placeholder is gone is kept.
    for (const auto& placeholder : placeholders_) {
        if (placeholder.record.empty()) continue; // somebody else's, or the user's own empty directory
        const std::string left = fmt::format("{}left-{}", kRecordPrefix, random_hex(8));
        ::renameat(state_, placeholder.record.c_str(), state_, left.c_str());
    }
    placeholders_.clear();
    (void)sweep(state_); // what somebody still holds is its last user's to remove
}

Result<std::size_t> ProtectedNames::sweep(int state)
{
    BERTH_TRY(const auto records, records_in(state));
    std::size_t removed = 0;
    for (const auto& record : records) {
        const auto maker = sys::maker_of(std::string_view(record).substr(kRecordPrefix.size()));
        const bool live = maker && sys::may_be_alive(*maker);
        if (record.ends_with(kUnfinished)) { // a record being written
            if (!live) ::unlinkat(state, record.c_str(), 0);
            continue;
        }
        const auto text = read_file_at(state, record);
        if (!text) continue;
        const auto parts = split(*text, '\0');
        if (parts.size() != 2) continue;
        UniqueFd parent(::open(parts[0].c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
        UniqueFd lock = parent ? open_below(parent.get(), parts[1].c_str()) : UniqueFd();
        if (lock ? !remove_if_last(parent.get(), parts[1], lock.get()) : live)
            continue; // held by somebody, or about to be made
        ::unlinkat(state, record.c_str(), 0);
        ++removed;
    }
    return removed;
}

bool is_placeholder(int state, const std::string& path)
{
    const auto slash = path.rfind('/');
    if (slash == std::string::npos) return false;
    const UniqueFd there(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!there || has_content(there.get())) return false;
    const auto record = (slash == 0 ? "/" : path.substr(0, slash)) + '\0' + path.substr(slash + 1);
    return is_recorded(state, record).value_or(false);
}

} // namespace berth::keeping

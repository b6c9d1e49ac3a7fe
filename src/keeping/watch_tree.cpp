// Which directories a watch follows. A directory that appears is watched first and listed then, so that
// what was put into it at once is told either by the list or by an event, and never twice.

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <utility>

#include "base/strings.hpp"
#include "keeping/watch.hpp"
#include "sys/sandbox_files_resolve.hpp"

namespace berth::keeping {

namespace {

constexpr std::size_t kMostListed = 100'000; // of one directory; more are told by their events alone

std::string join(const std::string& directory, const std::string& name)
{
    return directory.empty() ? name : directory + "/" + name;
}

/// "a" and "a/b", but not "ab", are at or below "a".
bool at_or_below(std::string_view path, std::string_view top)
{
    return path == top || (path.starts_with(top) && path.size() > top.size() && path[top.size()] == '/');
}

Result<UniqueFd> open_below(int top, const std::string& path)
{
    const open_how how{.flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
                       .mode = 0,
                       .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
    const std::string name = path.empty() ? "." : path;
    const UniqueFd found(static_cast<int>(::syscall(SYS_openat2, top, name.c_str(), &how, sizeof how)));
    if (!found) return fail_errno("opening directory {}", printable(path));
    return sys::resolve_in(found.get(), ".", O_DIRECTORY); // refuses interfaces of the kernel
}

/// Gone, exchanged, closed to the user or the kernel's: a directory that is not watched.
bool not_worth_telling(const Error& error)
{
    return error.code == Code::NotFound || error.code == Code::Denied || error.sys.value() == ENOTDIR ||
           error.sys.value() == ELOOP || error.sys.value() == ENAMETOOLONG;
}

} // namespace

Status WatchedTree::begin(Numbers& numbers)
{
    BERTH_CHECK(add_one("", numbers, top_number_)); // here a failure is told
    return depth_ == WatchDepth::All ? add("", numbers, nullptr) : Status{};
}

/// The same directory each time, or none. It is not held open meanwhile: one that somebody holds is
/// removed without a word of inotify's.
Result<UniqueFd> WatchedTree::open_top(int root)
{
    BERTH_TRY(auto top, sys::resolve_in(root, path_, O_DIRECTORY));
    struct stat st{};
    if (::fstat(top.get(), &st) != 0) return fail_errno("looking at {}", printable(path_));
    if (top_number_ < 0) top_id_ = {st.st_dev, st.st_ino};
    if (top_id_ != std::pair{st.st_dev, st.st_ino})
        return fail(Code::NotFound, "the watched directory {} is gone", printable(path_));
    return top;
}

/// Watches one directory and lists it.
Result<std::vector<WatchedTree::Entry>> WatchedTree::add_one(const std::string& path, Numbers& numbers,
                                                             int& number)
{
    return files_->run([&](int root) -> Result<std::vector<Entry>> {
        BERTH_TRY(const auto top, open_top(root));
        BERTH_TRY(const auto directory, open_below(top.get(), path));
        BERTH_TRY(const int added, numbers.inotify().add(directory.get()));
        number = added;
        const auto [at, fresh] = directories_.try_emplace(added);
        if (fresh) numbers.use(added);
        at->second.path = path;
        by_path_[path] = added;
        std::vector<Entry> entries;
        UniqueFd fd(::openat(directory.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        DIR* stream = fd ? ::fdopendir(fd.get()) : nullptr;
        if (stream == nullptr) return entries;
        (void)fd.release();
        // NOLINTNEXTLINE(concurrency-mt-unsafe): our own stream
        while (const dirent* entry = entries.size() < kMostListed ? ::readdir(stream) : nullptr) {
            const std::string_view name = entry->d_name;
            if (name == "." || name == "..") continue;
            struct stat st{};
            bool is_directory = entry->d_type == DT_DIR;
            if (entry->d_type == DT_UNKNOWN &&
                ::fstatat(directory.get(), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
                is_directory = S_ISDIR(st.st_mode);
            entries.push_back({.name = std::string(name), .directory = is_directory});
        }
        ::closedir(stream);
        return entries;
    });
}

Status WatchedTree::add(const std::string& path, Numbers& numbers, ChangeQueue* tell)
{
    std::vector<std::string> left{path};
    while (!left.empty()) {
        const std::string present = std::move(left.back());
        left.pop_back();
        int number = -1;
        auto entries = add_one(present, numbers, number);
        if (!entries && not_worth_telling(entries.error())) continue;
        if (!entries) return std::unexpected(std::move(entries).error());
        auto& listed = directories_[number].listed;
        for (const auto& entry : *entries) {
            const std::string below = join(present, entry.name);
            if (entry.directory) left.push_back(below);
            if (tell == nullptr || !listed.insert(entry.name).second) continue;
            tell->push({.kind = FileChange::Kind::Created, .path = below});
        }
    }
    return {};
}

void WatchedTree::move(const std::string& from, const std::string& to)
{
    for (auto& [number, directory] : directories_) {
        if (!at_or_below(directory.path, from)) continue;
        if (const auto old = by_path_.find(directory.path); old != by_path_.end() && old->second == number)
            by_path_.erase(old);
        directory.path = to + directory.path.substr(from.size());
        by_path_[directory.path] = number;
    }
}

void WatchedTree::drop(const std::string& path, Numbers& numbers)
{
    for (auto at = directories_.begin(); at != directories_.end();) {
        if (!at_or_below(at->second.path, path)) {
            ++at;
            continue;
        }
        by_path_.erase(at->second.path);
        numbers.release(at->first);
        at = directories_.erase(at);
    }
}

Status WatchedTree::gone(int number)
{
    const auto at = directories_.find(number);
    if (at == directories_.end()) return {};
    if (const auto named = by_path_.find(at->second.path); named != by_path_.end() && named->second == number)
        by_path_.erase(named);
    directories_.erase(at);
    if (number != top_number_) return {};
    return fail(Code::NotFound, "the watched directory {} is gone", printable(path_));
}

Status WatchedTree::see(const sys::DirectoryEvent& event, Numbers& numbers, ChangeQueue& out)
{
    using In = sys::DirectoryEvent::Kind;
    using Out = FileChange::Kind;
    if (event.kind == In::Overflow) {
        out.push({.kind = Out::Overflow, .path = {}});
        moved_.reset();
        if (depth_ == WatchDepth::One) return {};
        return add("", numbers, nullptr); // whoever is told looks for himself; here what is new is watched
    }
    if (event.kind == In::Gone) return gone(event.watch);
    if (moved_) {
        const Moved moved = *std::exchange(moved_, std::nullopt);
        const auto to = directories_.find(event.watch);
        if (to != directories_.end() && event.kind == In::MovedTo && event.move == moved.move) {
            const std::string path = join(to->second.path, event.name);
            move(moved.from, path);
            out.push({.kind = Out::Created, .path = path});
            return {};
        }
        drop(moved.from, numbers); // it has left the tree
    }
    const auto at = directories_.find(event.watch);
    if (at == directories_.end()) return {};
    if (event.name.empty()) { // of one below, the directory above it tells
        if (event.kind == In::MovedFrom && event.watch == top_number_)
            out.push({.kind = Out::Renamed, .path = "."});
        return {};
    }
    const std::string path = join(at->second.path, event.name);
    switch (event.kind) {
    case In::Created:
        if (at->second.listed.erase(event.name) > 0) return {};
        [[fallthrough]];
    case In::MovedTo:
        out.push({.kind = Out::Created, .path = path});
        return event.directory && depth_ == WatchDepth::All ? add(path, numbers, &out) : Status{};
    case In::Removed:
        at->second.listed.erase(event.name);
        out.push({.kind = Out::Removed, .path = path});
        return {};
    case In::MovedFrom:
        at->second.listed.erase(event.name);
        out.push({.kind = Out::Renamed, .path = path});
        if (event.directory && depth_ == WatchDepth::All) moved_ = Moved{.move = event.move, .from = path};
        return {};
    case In::Written: out.push({.kind = Out::Written, .path = path}); return {};
    case In::Attributes: out.push({.kind = Out::Attributes, .path = path}); return {};
    case In::Gone:
    case In::Overflow: break;
    }
    return {};
}

void WatchedTree::end(Numbers& numbers)
{
    for (const auto& [number, directory] : directories_) numbers.release(number);
    directories_.clear();
    by_path_.clear();
    files_.reset();
}

} // namespace berth::keeping

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "core/backend.hpp"
#include "core/watches_one.hpp"
#include "sys/inotify.hpp"
#include "sys/sandbox_files.hpp"

namespace berth::keeping {

/// What one watch has to tell, between the thread that learns of it and whoever asks. For any thread.
class ChangeQueue {
public:
    [[nodiscard]] static Result<std::shared_ptr<ChangeQueue>> make();

    /// Beyond a bound the rest is dropped and an Overflow told instead.
    void push(FileChange change);
    /// Nothing follows what was pushed but this error.
    void end(Error why);

    /// What there is; the error when that is all. Empty: wait until `ready()` is readable.
    [[nodiscard]] Result<std::vector<FileChange>> take();
    /// An eventfd. Borrowed.
    [[nodiscard]] int ready() const noexcept { return wake_.get(); }

private:
    explicit ChangeQueue(UniqueFd wake) noexcept : wake_(std::move(wake)) {}
    void wake() const noexcept;

    UniqueFd wake_;
    std::mutex mutex_;
    std::deque<FileChange> changes_;
    bool overflown_ = false;
    std::optional<Error> ended_;
};

/// The inotify instance of a process, and how many trees use each of its numbers: several watches of one
/// directory share one.
class Numbers {
public:
    explicit Numbers(sys::Inotify inotify) noexcept : inotify_(std::move(inotify)) {}

    [[nodiscard]] const sys::Inotify& inotify() const noexcept { return inotify_; }
    void use(int number) { ++uses_[number]; }
    void release(int number);
    /// The kernel has taken it back.
    void forget(int number) { uses_.erase(number); }

private:
    sys::Inotify inotify_;
    std::map<int, unsigned> uses_;
};

/// A directory of a sandbox, alone or with all below it, as one watch sees it. The directories are found with
/// the rights of the sandbox's user, by descriptor, and without following a link.
class WatchedTree {
public:
    WatchedTree(sys::SandboxFiles files, std::string path, WatchDepth depth)
        : files_(std::move(files)), path_(std::move(path)), depth_(depth)
    {
    }

    /// Resolves the directory and watches it.
    [[nodiscard]] Status begin(Numbers& numbers);
    /// Tells the changes of one event. Numbers that are not of this tree say nothing.
    [[nodiscard]] Status see(const sys::DirectoryEvent& event, Numbers& numbers, ChangeQueue& out);
    /// Gives its numbers back, and lets go of the sandbox's files.
    void end(Numbers& numbers);

private:
    struct Directory {
        std::string path;             ///< "" or "a/b"
        std::set<std::string> listed; ///< told as created before an event did
    };
    struct Entry {
        std::string name;
        bool directory = false;
    };
    [[nodiscard]] Result<UniqueFd> open_top(int root);
    [[nodiscard]] Result<std::vector<Entry>> add_one(const std::string& path, Numbers& numbers, int& number);
    [[nodiscard]] Status add(const std::string& path, Numbers& numbers, ChangeQueue* tell);
    void move(const std::string& from, const std::string& to);
    void drop(const std::string& path, Numbers& numbers);
    [[nodiscard]] Status gone(int number);

    std::optional<sys::SandboxFiles> files_;
    std::string path_;
    WatchDepth depth_;
    int top_number_ = -1;
    std::pair<dev_t, ino_t> top_id_; ///< of the directory at `path_`, when it began
    std::map<int, Directory> directories_;
    std::map<std::string, int> by_path_;
    /// A directory that was moved away, until the other half of its move follows or does not.
    struct Moved {
        std::uint32_t move;
        std::string from;
    };
    std::optional<Moved> moved_;
};

} // namespace berth::keeping

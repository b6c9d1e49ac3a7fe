#include "sys/copy_tree.hpp"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/io.hpp"
#include "base/strings.hpp"
#include "base/unique_fd.hpp"
#include "sys/tree_source.hpp"

namespace berth::sys {

namespace {

constexpr unsigned kThreads = 4;
constexpr std::size_t kMaxWaiting = 64; ///< directories that wait for a thread hold descriptors open
constexpr unsigned kMaxDepth = 400;     ///< each open level takes two more
constexpr mode_t kModeBits = 07777;
constexpr std::size_t kPiece = std::size_t{1} << 30;

/// One directory of the source and what it becomes.
struct Pair {
    TreeSource from;
    UniqueFd to;
    struct stat st{};
    std::string path{}; ///< below the root of the copy, to be linked to
    unsigned depth = 0;
};

/// Owner before mode: a change of owner takes the set-id bits away.
Status give_away(int at, const std::string& name, const struct stat& st)
{
    const bool ours = st.st_uid == ::geteuid() && st.st_gid == ::getegid();
    if (!ours && ::fchownat(at, name.c_str(), st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) != 0)
        return fail_errno("giving away the copy of {}", printable(name));
    return {};
}

Status set_times(int at, const char* name, const struct stat& st)
{
    const timespec times[2] = {st.st_atim, st.st_mtim};
    if (::utimensat(at, name, &times[0], AT_SYMLINK_NOFOLLOW) != 0)
        return fail_errno("setting the times of the copy of {}", printable(name));
    return {};
}

class Copy {
public:
    Result<TreeCopied> run(Pair root)
    {
        waiting_.push_back(std::move(root));
        open_ = 1;
        const unsigned count = std::clamp(std::thread::hardware_concurrency(), 1u, kThreads);
        std::vector<std::jthread> threads;
        for (unsigned i = 1; i < count; ++i) threads.emplace_back([this] { work(); });
        work();
        threads.clear();
        if (failed_) return std::unexpected(std::move(*failed_));
        return TreeCopied{.files = files_, .bytes = bytes_};
    }

private:
    void work()
    {
        for (;;) {
            std::unique_lock lock(mutex_);
            more_.wait(lock, [&] { return !waiting_.empty() || open_ == 0 || failed_.has_value(); });
            if (failed_ || waiting_.empty()) return;
            Pair next = std::move(waiting_.back());
            waiting_.pop_back();
            lock.unlock();
            auto done = directory(next);
            lock.lock();
            if (!done && !failed_) failed_ = std::move(done).error();
            --open_;
            if (open_ == 0 || failed_) more_.notify_all();
        }
    }

    Status directory(const Pair& dir)
    {
        BERTH_TRY(const auto names, list_names(dir.from.get()));
        for (const auto& name : names) {
            if (failed()) return {};
            if (auto done = entry(dir, name); !done)
                return std::unexpected(std::move(done).error().while_doing(
                    fmt::format("copying {}", printable(dir.path.empty() ? "/" : dir.path))));
        }
        const std::string what = dir.path.empty() ? "." : dir.path;
        if (dir.st.st_uid != ::geteuid() || dir.st.st_gid != ::getegid())
            if (::fchown(dir.to.get(), dir.st.st_uid, dir.st.st_gid) != 0)
                return fail_errno("giving away the copy of {}", printable(what));
        BERTH_CHECK(copy_attributes(link_of(dir.from.get()), link_of(dir.to.get()), what));
        if (::fchmod(dir.to.get(), dir.st.st_mode & kModeBits) != 0)
            return fail_errno("opening the copy of {}", printable(what));
        const timespec times[2] = {dir.st.st_atim, dir.st.st_mtim};
        if (::futimens(dir.to.get(), &times[0]) != 0)
            return fail_errno("setting the times of the copy of {}", printable(what));
        return {};
    }

    Status entry(const Pair& dir, const std::string& name)
    {
        struct stat st{};
        if (::fstatat(dir.from.get(), name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0)
            return fail_errno("looking at {}", printable(name));
        if (S_ISDIR(st.st_mode)) return subdirectory(dir, name, st);
        if (st.st_nlink <= 1) return object(dir, name, st);
        // The first of several names is copied, and the others wait for it.
        const std::scoped_lock lock(links_mutex_);
        const std::string path = fmt::format("{}{}{}", dir.path, dir.path.empty() ? "" : "/", name);
        const auto [known, first] = links_.try_emplace({st.st_dev, st.st_ino}, path);
        if (first) return object(dir, name, st);
        if (::linkat(root_, known->second.c_str(), dir.to.get(), name.c_str(), 0) != 0)
            return fail_errno("linking the copy of {}", printable(name));
        return {};
    }

    Status subdirectory(const Pair& dir, const std::string& name, const struct stat& st)
    {
        constexpr int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
        if (dir.depth >= kMaxDepth)
            return fail(Code::Exhausted, "more than {} directories in one another cannot be copied",
                        kMaxDepth);
        Pair next{.from = TreeSource(dir.from.get(), name, flags, st), .to = {}, .st = st};
        if (!next.from) return fail_errno("opening {}", printable(name));
        if (::mkdirat(dir.to.get(), name.c_str(), 0700) != 0)
            return fail_errno("making the copy of {}", printable(name));
        next.to.reset(::openat(dir.to.get(), name.c_str(), flags));
        if (!next.to) return fail_errno("opening the copy of {}", printable(name));
        next.path = fmt::format("{}{}{}", dir.path, dir.path.empty() ? "" : "/", name);
        next.depth = dir.depth + 1;
        {
            const std::scoped_lock lock(mutex_);
            if (waiting_.size() < kMaxWaiting) {
                waiting_.push_back(std::move(next));
                ++open_;
                more_.notify_one();
                return {};
            }
        }
        return directory(next);
    }

    Status object(const Pair& dir, const std::string& name, const struct stat& st)
    {
        ++files_;
        const int from = dir.from.get();
        const int to = dir.to.get();
        if (S_ISREG(st.st_mode)) return regular(from, to, name, st);
        if (S_ISLNK(st.st_mode)) {
            std::string target(static_cast<std::size_t>(st.st_size) + 1, '\0');
            const ssize_t n = ::readlinkat(from, name.c_str(), target.data(), target.size());
            if (n < 0 || n > st.st_size) return fail_errno("reading the link {}", printable(name));
            target.resize(static_cast<std::size_t>(n));
            if (::symlinkat(target.c_str(), to, name.c_str()) != 0)
                return fail_errno("making the copy of {}", printable(name));
        } else {
            // A whiteout is the one device that anybody may make.
            if (::mknodat(to, name.c_str(), (st.st_mode & S_IFMT) | 0600, st.st_rdev) != 0)
                return fail_errno("making the copy of {}", printable(name));
        }
        BERTH_CHECK(give_away(to, name, st));
        const UniqueFd source(::openat(from, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
        const UniqueFd made(::openat(to, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
        if (!source || !made) return fail_errno("opening {}", printable(name));
        BERTH_CHECK(copy_attributes(link_of(source.get()), link_of(made.get()), name));
        if (!S_ISLNK(st.st_mode) && ::chmod(link_of(made.get()).c_str(), st.st_mode & kModeBits) != 0)
            return fail_errno("opening the copy of {}", printable(name));
        return set_times(to, name.c_str(), st);
    }

    Status regular(int from_dir, int to_dir, const std::string& name, const struct stat& st)
    {
        const TreeSource from(from_dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, st);
        if (!from) return fail_errno("opening {}", printable(name));
        const UniqueFd to(
            ::openat(to_dir, name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
        if (!to) return fail_errno("making the copy of {}", printable(name));
        if (st.st_size > 0) BERTH_CHECK(contents(from.get(), to.get(), st.st_size, name));
        BERTH_CHECK(give_away(to_dir, name, st));
        BERTH_CHECK(copy_attributes(link_of(from.get()), link_of(to.get()), name));
        if (::fchmod(to.get(), st.st_mode & kModeBits) != 0)
            return fail_errno("opening the copy of {}", printable(name));
        return set_times(to_dir, name.c_str(), st);
    }

    Status contents(int from, int to, off_t size, const std::string& name)
    {
        if (clones_) {
            if (::ioctl(to, FICLONE, from) == 0) {
                bytes_ += static_cast<std::uint64_t>(size);
                return {};
            }
            clones_ = false; // this file system cannot
        }
        if (::ftruncate(to, size) != 0) return fail_errno("making room for the copy of {}", printable(name));
        for (off_t at = 0; at < size;) {
            off_t begin = ::lseek(from, at, SEEK_DATA);
            if (begin < 0 && errno == ENXIO) break; // only a hole follows
            off_t end = begin < 0 ? size : ::lseek(from, begin, SEEK_HOLE);
            if (begin < 0) begin = at; // no holes are known here
            if (end < 0) end = size;
            BERTH_CHECK(range(from, to, begin, end, name));
            at = end;
        }
        return {};
    }

    Status range(int from, int to, off_t begin, off_t end, const std::string& name)
    {
        off_t in = begin;
        off_t out = begin;
        while (in < end && !failed()) {
            const auto piece = std::min(static_cast<std::size_t>(end - in), kPiece);
            const ssize_t n = ::copy_file_range(from, &in, to, &out, piece, 0);
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) return fail_errno("copying {}", printable(name));
            if (n == 0) break; // shorter than it was: nobody promised otherwise for a mapped file
            bytes_ += static_cast<std::uint64_t>(n);
        }
        return {};
    }

    bool failed()
    {
        const std::scoped_lock lock(mutex_);
        return failed_.has_value();
    }

public:
    int root_ = -1; ///< of the copy; borrowed

private:
    std::mutex mutex_;
    std::condition_variable more_;
    std::vector<Pair> waiting_;
    std::size_t open_ = 0; ///< directories that wait or are worked at
    std::optional<Error> failed_;
    std::mutex links_mutex_;
    std::map<std::pair<dev_t, ino_t>, std::string> links_;
    std::atomic<bool> clones_ = true;
    std::atomic<std::uint64_t> files_ = 0;
    std::atomic<std::uint64_t> bytes_ = 0;
};

} // namespace

Result<TreeCopied> copy_tree(int from, int to, const std::string& name)
{
    constexpr int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    struct stat st{};
    if (::fstat(from, &st) != 0) return fail_errno("looking at what is to be copied");
    Pair root{.from = TreeSource(from, ".", flags, st), .to = {}, .st = st};
    if (!root.from) return fail_errno("opening what is to be copied");
    if (::mkdirat(to, name.c_str(), 0700) != 0) return fail_errno("making the copy {}", printable(name));
    root.to.reset(::openat(to, name.c_str(), flags));
    if (!root.to) return fail_errno("opening the copy {}", printable(name));
    const UniqueFd top(::openat(to, name.c_str(), flags));
    if (!top) return fail_errno("opening the copy {}", printable(name));
    Copy copy;
    copy.root_ = top.get();
    return copy.run(std::move(root));
}

} // namespace berth::sys

// Protects everything outside a tree from the deletion of that tree, against a writer who still
// renames and links inside it while we work. Relies on openat2(2) (Linux 5.6): each directory is
// opened as one component below a held descriptor, without symlinks and without crossing a mount,
// and ".." is never used. So the worst a rename can do is to have us delete what its author put
// there, or to make us fail.
#include "sys/remove_tree.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <memory>
#include <optional>
#include <vector>

#include "base/strings.hpp"
#include "base/unique_fd.hpp"

namespace berth::sys {
namespace {

/// Directories held open at once. What lies deeper is moved up to the top of the tree and met
/// again there, so neither the descriptor limit nor PATH_MAX bounds the depth.
constexpr std::size_t kMaxOpen = 32;

/// Reading a directory while emptying it may skip entries, so it is read again; a directory that
/// is still not empty after this many rounds is being filled by somebody.
constexpr int kMaxRounds = 64;

struct CloseDir {
    void operator()(DIR* dir) const noexcept { ::closedir(dir); }
};
using Dir = std::unique_ptr<DIR, CloseDir>;

struct Level {
    Dir dir;
    std::string name; ///< in the directory above
    int rounds = 0;
    bool moved_some = false; ///< something deeper was put here for the next round
    bool failed = false;     ///< holds something that cannot be removed
    [[nodiscard]] int fd() const noexcept { return ::dirfd(dir.get()); }
};

int open_below(int directory, const std::string& name, std::uint64_t flags) noexcept
{
    const open_how how{.flags = flags | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
                       .mode = 0,
                       .resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV | RESOLVE_BENEATH};
    return static_cast<int>(::syscall(SYS_openat2, directory, name.c_str(), &how, sizeof how));
}

/// A directory of ours that we may read, enter and change; -1 and errno when that cannot be had.
int open_for_removal(int directory, const std::string& name) noexcept
{
    constexpr mode_t kOwner = 0700;
    int fd = open_below(directory, name, O_RDONLY);
    if (fd < 0 && errno == EACCES) {
        // An O_PATH descriptor needs no permission on the object, but fchmod refuses it; its magic
        // link leads to exactly this object.
        const UniqueFd closed(open_below(directory, name, O_PATH));
        if (!closed) return -1;
        const std::string link = fmt::format("/proc/thread-self/fd/{}", closed.get());
        if (::chmod(link.c_str(), kOwner) != 0) return -1;
        fd = ::openat(closed.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    if (fd < 0) return -1;
    // Read-only directories (module caches) would keep their entries. If it is not ours, removing
    // them fails and says so.
    struct stat st{};
    if (::fstat(fd, &st) == 0 && (st.st_mode & kOwner) != kOwner) ::fchmod(fd, kOwner);
    return fd;
}

std::string random_name()
{
    std::uint64_t word[2] = {};
    if (::getrandom(word, sizeof word, 0) != static_cast<ssize_t>(sizeof word)) return {};
    return fmt::format(".gone-{:016x}{:016x}", word[0], word[1]);
}

class Removal {
public:
    Removal(int directory, const std::string& name) noexcept : above_(directory), top_(name) {}

    Status run()
    {
        for (int rounds = 0; rounds < kMaxRounds; ++rounds) {
            visit(above_, top_, DT_UNKNOWN);
            while (!levels_.empty()) step();
            if (first_) return std::unexpected(std::move(*first_));
            struct stat st{};
            if (::fstatat(above_, top_.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0 && errno == ENOENT) return {};
        }
        return fail(Code::Conflict, "{} is made again while it is removed", printable(top_));
    }

private:
    /// Removes one entry, or opens it as the next level.
    void visit(int directory, const std::string& name, unsigned char type)
    {
        if (type != DT_DIR) {
            if (::unlinkat(directory, name.c_str(), 0) == 0 || errno == ENOENT) return;
            if (errno != EISDIR) return keep(directory, name, errno);
        }
        if (::unlinkat(directory, name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return;
        if (errno == ENOTDIR) return; // swapped under our eyes: the next round meets what it is now
        if (errno != ENOTEMPTY && errno != EEXIST) return keep(directory, name, errno);

        UniqueFd fd(open_for_removal(directory, name));
        if (!fd) {
            const bool swapped = errno == ENOENT || errno == ENOTDIR || errno == ELOOP;
            if (!swapped) keep(directory, name, errno);
            return;
        }
        if (levels_.size() >= kMaxOpen && lift(directory, name)) return;
        Dir dir(::fdopendir(fd.get()));
        if (!dir) return keep(directory, name, errno);
        static_cast<void>(fd.release());
        levels_.push_back(Level{.dir = std::move(dir), .name = name});
    }

    /// Moves a deep directory to the top of the tree.
    bool lift(int directory, const std::string& name)
    {
        const std::string fresh = random_name();
        Level& top = levels_.front();
        if (fresh.empty() || ::renameat(directory, name.c_str(), top.fd(), fresh.c_str()) != 0) return false;
        top.moved_some = true;
        return true;
    }

    /// One entry of the deepest open directory, or its end.
    void step()
    {
        Level& level = levels_.back();
        errno = 0;
        if (const dirent* entry = ::readdir(level.dir.get())) {
            const std::string name = entry->d_name;
            if (name != "." && name != "..") visit(level.fd(), name, entry->d_type);
            return;
        }
        if (errno != 0) note(errno, "reading directory", path());
        if (level.failed && !level.moved_some) return leave();
        const int parent = levels_.size() == 1 ? above_ : levels_[levels_.size() - 2].fd();
        if (::unlinkat(parent, level.name.c_str(), AT_REMOVEDIR) == 0) return leave();
        if (errno == ENOENT || errno == ENOTDIR) return leave(); // moved away, or swapped
        if (errno != ENOTEMPTY && errno != EEXIST) {
            note(errno, "removing directory", path());
            return leave();
        }
        if (level.moved_some) level.rounds = 0;
        if (++level.rounds > kMaxRounds) {
            if (!first_)
                first_ = fail(Code::Conflict, "{} is being filled while it is removed", path()).error();
            level.failed = true;
            return leave();
        }
        level.moved_some = false;
        ::rewinddir(level.dir.get());
    }

    void leave()
    {
        const bool failed = levels_.back().failed;
        levels_.pop_back();
        if (failed && !levels_.empty()) levels_.back().failed = true;
    }

    void keep(int directory, const std::string& name, int err)
    {
        const std::string where = levels_.empty() ? name : path() + "/" + name;
        if (!levels_.empty()) levels_.back().failed = true;
        if (first_) return;
        if (err == EXDEV || err == EBUSY) {
            first_ =
                fail(Code::Conflict, "{} is a mount point and was not removed", printable(where)).error();
            return;
        }
        struct statx sx{};
        constexpr auto kSealed = STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND;
        if (err == EPERM && ::statx(directory, name.c_str(), AT_SYMLINK_NOFOLLOW, STATX_TYPE, &sx) == 0 &&
            (sx.stx_attributes & kSealed) != 0)
            return note(err, "removing immutable", where);
        note(err, "removing", where);
    }

    void note(int err, std::string_view doing, const std::string& what)
    {
        if (!levels_.empty()) levels_.back().failed = true;
        if (!first_) first_ = fail_with(err, "{} {}", doing, printable(what)).error();
    }

    [[nodiscard]] std::string path() const
    {
        std::string text;
        for (const auto& level : levels_) text += (text.empty() ? "" : "/") + level.name;
        return text;
    }

    int above_;
    std::string top_;
    std::vector<Level> levels_;
    std::optional<Error> first_;
};

Status check_name(const std::string& name)
{
    if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
        name.find('\0') != std::string::npos)
        return fail(Code::Invalid, "'{}' is not the name of one entry", printable(name));
    return {};
}

} // namespace

Status remove_tree(int directory, const std::string& name)
{
    BERTH_CHECK(check_name(name));
    return Removal(directory, name).run();
}

Status move_to_trash(int directory, const std::string& name, int trash)
{
    BERTH_CHECK(check_name(name));
    const std::string fresh = random_name();
    if (fresh.empty()) return fail_errno("drawing a random name");
    if (::renameat(directory, name.c_str(), trash, fresh.c_str()) == 0 || errno == ENOENT) return {};
    if (errno == EACCES) {
        // A directory changes its ".." when it moves, so it must be writable itself.
        const UniqueFd opened(open_for_removal(directory, name));
        if (opened && ::renameat(directory, name.c_str(), trash, fresh.c_str()) == 0) return {};
        errno = EACCES;
    }
    return fail_errno("moving {} to the trash", printable(name));
}

Status empty_trash(int trash)
{
    Status first;
    // A descriptor of its own: the caller's may be O_PATH, and its read position is not ours.
    const int fd = ::openat(trash, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return fail_errno("opening the trash");
    const Dir dir(::fdopendir(fd));
    if (!dir) {
        const int err = errno;
        ::close(fd);
        return fail_with(err, "reading the trash");
    }
    std::vector<std::string> names;
    while (const dirent* entry = ::readdir(dir.get())) {
        const std::string name = entry->d_name;
        if (name != "." && name != "..") names.push_back(name);
    }
    for (const auto& name : names)
        if (auto gone = remove_tree(trash, name); !gone && first)
            first = std::unexpected(std::move(gone).error().while_doing("emptying the trash"));
    return first;
}

} // namespace berth::sys

// Protects everything outside of one directory from an archive and from the owner of that directory, who
// may exchange a directory for a link while we write. Relies on openat2 resolving without links, on
// O_EXCL, and on the calling thread having the owner's rights and no others.
#include "image/archive_writer.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ranges>

#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/scope_exit.hpp"
#include "base/strings.hpp"

namespace berth::image {

namespace {

using Kind = ArchiveMember::Kind;

constexpr unsigned kUnfinished = 0700; // of a directory until all is in it

int open_beneath(int root, const std::string& path, int flags)
{
    const open_how how{.flags = static_cast<std::uint64_t>(O_PATH | O_NOFOLLOW | O_CLOEXEC | flags),
                       .mode = 0,
                       .resolve =
                           RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV};
    return static_cast<int>(::syscall(SYS_openat2, root, path.c_str(), &how, sizeof how));
}

std::string parent_of(const std::string& path)
{
    const auto slash = path.rfind('/');
    return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

const char* name_in(const std::string& path)
{
    const auto slash = path.rfind('/');
    return path.c_str() + (slash == std::string::npos ? 0 : slash + 1);
}

std::unexpected<Error> in_the_way(std::string_view what, const std::string& path)
{
    return fail(Code::Conflict, "archive: {} (member '{}')", what, printable(path, 200));
}

/// Takes away what has this name, unless it is a directory.
Status clear_name(int directory, const std::string& path)
{
    if (::unlinkat(directory, name_in(path), 0) == 0 || errno == ENOENT) return {};
    if (errno == EISDIR) return in_the_way("a directory is in the way", path);
    return fail_errno("replacing {}", printable(path));
}

Status fill_file(TarReader& reader, int file, const std::string& path, const TarEntry& entry)
{
    std::int64_t end = 0;
    for (;;) {
        BERTH_TRY(const auto block, reader.block());
        if (!block) break;
        if (block->offset != end && ::lseek(file, block->offset, SEEK_SET) < 0)
            return fail_errno("writing {}", printable(path));
        if (auto put = write_all(file, block->bytes); !put)
            return std::unexpected(std::move(put).error().while_doing("writing " + printable(path)));
        end = block->offset + static_cast<std::int64_t>(block->bytes.size());
    }
    // What is missing at its end is a hole.
    if (entry.size > end && ::ftruncate(file, entry.size) != 0)
        return fail_errno("writing {}", printable(path));
    if (entry.mtime) {
        const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, *entry.mtime};
        (void)::futimens(file, &times[0]); // a date no file system knows is not worth a failure
    }
    if (::fchmod(file, extracted_mode(entry.mode, false)) != 0)
        return fail_errno("setting the mode of {}", printable(path));
    return {};
}

} // namespace

unsigned extracted_mode(unsigned mode, bool directory) noexcept
{
    if (directory) return (mode & 0755) | 0700;
    const unsigned executable = (mode & 0100) != 0 ? 0111 : 0;
    return (mode & (0644 | executable)) | 0600;
}

/// What is at `path` before we begin. `as_directory`: a member needs it as its parent.
Result<ArchiveWriter::There> ArchiveWriter::look(const std::string& path, bool as_directory)
{
    if (path.empty()) return There::Directory;
    if (const auto known = seen_.find(path); known != seen_.end()) return known->second;
    BERTH_TRY(const auto above, look(parent_of(path), true));
    if (above == There::Mounted) return in_the_way("something is mounted there", path);
    const auto listed = members_.find(path);
    There found = There::Nothing;
    if (above == There::Directory) {
        const UniqueFd object(open_beneath(root_, path, 0));
        const int error = errno;
        if (!object && error == EXDEV) {
            // The whole of a root names those directories too, with nothing in them.
            if (listed == members_.end() || listed->second != Kind::Directory)
                return in_the_way("something is mounted there", path);
            found = There::Mounted;
        }
        if (!object && error != ENOENT && error != EXDEV)
            return fail_with(error, "looking at {}", printable(path));
        struct stat st{};
        if (object && ::fstat(object.get(), &st) != 0) return fail_errno("looking at {}", printable(path));
        if (object && S_ISDIR(st.st_mode)) found = There::Directory;
        if (object && found == There::Nothing && as_directory && listed == members_.end())
            return in_the_way(S_ISLNK(st.st_mode) ? "its parent is a link" : "its parent is not a directory",
                              path);
    }
    seen_.emplace(path, found);
    return found;
}

Status ArchiveWriter::check()
{
    for (const auto& [path, kind] : members_) {
        BERTH_TRY(const auto there, look(path, kind == Kind::Directory));
        if (kind != Kind::Directory && there == There::Directory)
            return in_the_way("a directory is in the way", path);
    }
    return {};
}

/// Opened, and made where it is missing.
Result<UniqueFd> ArchiveWriter::parent(const std::string& path)
{
    const std::string above = parent_of(path);
    if (parent_ && above == parent_path_) {
        UniqueFd again(::fcntl(parent_.get(), F_DUPFD_CLOEXEC, 0));
        if (!again) return fail_errno("opening {}", printable(above));
        return again;
    }
    UniqueFd directory(above.empty() ? ::openat(root_, ".", O_PATH | O_DIRECTORY | O_CLOEXEC)
                                     : open_beneath(root_, above, O_DIRECTORY));
    if (!directory && (errno == ENOENT || errno == ELOOP || errno == ENOTDIR)) {
        BERTH_CHECK(make_directory(above, 0755));
        directory.reset(open_beneath(root_, above, O_DIRECTORY));
    }
    if (!directory && (errno == ELOOP || errno == ENOTDIR))
        return in_the_way("its parent is not a directory", path);
    if (!directory && errno == EXDEV) return in_the_way("something is mounted there", path);
    if (!directory) return fail_errno("opening the directory of {}", printable(path));
    parent_.reset(::fcntl(directory.get(), F_DUPFD_CLOEXEC, 0));
    parent_path_ = above;
    return directory;
}

Status ArchiveWriter::make_directory(const std::string& path, unsigned mode)
{
    BERTH_TRY(const auto above, parent(path));
    if (::mkdirat(above.get(), name_in(path), kUnfinished) != 0) {
        struct stat st{};
        if (errno != EEXIST) return fail_errno("creating directory {}", printable(path));
        if (::fstatat(above.get(), name_in(path), &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode)) {
            // Made for a member before, or not ours.
            if (const auto made = modes_.find(path); made != modes_.end()) made->second = mode;
            return {};
        }
        if (!members_.contains(path)) return in_the_way("its parent is not a directory", path);
        BERTH_CHECK(clear_name(above.get(), path));
        if (::mkdirat(above.get(), name_in(path), kUnfinished) != 0)
            return fail_errno("creating directory {}", printable(path));
    }
    modes_[path] = mode;
    return {};
}

/// What is there under its name keeps it until the new one is whole: a disk that is full, or the end of us,
/// must not cost both.
Status ArchiveWriter::make_file(TarReader& reader, const std::string& path, const TarEntry& entry)
{
    constexpr int kFresh = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC;
    BERTH_TRY(const auto above, parent(path));
    std::string name = name_in(path);
    UniqueFd file(::openat(above.get(), name.c_str(), kFresh, 0600));
    if (!file && errno == EEXIST) {
        name = ".berth-" + random_hex(8);
        file.reset(::openat(above.get(), name.c_str(), kFresh, 0600));
    }
    if (!file) return fail_errno("creating {}", printable(path));
    ScopeExit undo([&] { ::unlinkat(above.get(), name.c_str(), 0); });
    BERTH_CHECK(fill_file(reader, file.get(), path, entry));
    if (name != name_in(path) && ::renameat(above.get(), name.c_str(), above.get(), name_in(path)) != 0) {
        if (errno == EISDIR) return in_the_way("a directory is in the way", path);
        return fail_errno("replacing {}", printable(path));
    }
    undo.dismiss();
    return {};
}

Status ArchiveWriter::make_link(const std::string& path, const std::string& target)
{
    BERTH_TRY(const auto above, parent(path));
    BERTH_CHECK(clear_name(above.get(), path));
    if (::symlinkat(target.c_str(), above.get(), name_in(path)) != 0)
        return fail_errno("creating the link {}", printable(path));
    return {};
}

/// The deepest first, since a directory may close itself to us. One that was exchanged meanwhile is not
/// opened, for a link is not followed.
Status ArchiveWriter::finish()
{
    parent_.reset();
    for (const auto& [path, mode] : std::views::reverse(modes_)) {
        const UniqueFd object(open_beneath(root_, path, O_DIRECTORY));
        const UniqueFd directory(object ? ::openat(object.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                                        : -1);
        if (!directory || ::fchmod(directory.get(), mode) != 0)
            return fail_errno("setting the mode of {}", printable(path));
    }
    return {};
}

Status ArchiveWriter::write(int archive, const ArchiveLimits& limits)
{
    BERTH_TRY(auto reader, TarReader::open(archive, stream_limit(limits)));
    ArchiveRules rules(limits); // again: it is the same archive, and costs little
    std::vector<std::pair<std::string, std::string>> links;
    for (TarEntry entry;;) {
        BERTH_TRY(const bool more, reader.next(entry));
        if (!more) break;
        BERTH_TRY(const auto member, rules.admit(entry));
        if (!member || member->path.empty()) continue;
        switch (member->kind) {
        case Kind::Directory:
            BERTH_CHECK(make_directory(member->path, extracted_mode(entry.mode, true)));
            break;
        case Kind::File: BERTH_CHECK(make_file(reader, member->path, entry)); break;
        case Kind::Link: links.emplace_back(member->path, entry.target); break;
        }
    }
    for (const auto& [path, target] : links) BERTH_CHECK(make_link(path, target));
    return finish();
}

} // namespace berth::image

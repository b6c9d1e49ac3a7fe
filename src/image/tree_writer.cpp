// Protects the machine from archives: whatever names, links and orders one holds, nothing outside the root
// is created, changed or linked to. Relies on openat2 (Linux 5.6) and on being the only writer.

#include "image/tree_writer.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>

#include "base/strings.hpp"
#include "image/stack.hpp"

namespace berth::image {

namespace {

constexpr std::size_t kLongestName = 4095;
constexpr std::size_t kLongestComponent = 255;
constexpr int kMostComponents = 256;

UniqueFd open_beneath(int dir, const std::string& path, int flags)
{
    open_how how{};
    how.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC | O_NOFOLLOW);
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
    const char* name = path.empty() ? "." : path.c_str();
    return UniqueFd(static_cast<int>(::syscall(SYS_openat2, dir, name, &how, sizeof how)));
}

std::unexpected<Error> below_no_directory(const std::string& path)
{
    return fail(Code::Invalid, "'{}' is used as a directory and is a link or a file", printable(path));
}

} // namespace

Result<std::string> clean_name(std::string_view name)
{
    std::string clean;
    int components = 0;
    for (std::string_view rest = name; !rest.empty();) {
        const auto slash = rest.find('/');
        const std::string_view part = rest.substr(0, slash);
        rest.remove_prefix(slash == std::string_view::npos ? rest.size() : slash + 1);
        if (part.empty() || part == ".") continue;
        if (part == "..") return fail(Code::Invalid, "'{}' leads out of the archive", printable(name));
        if (part.size() > kLongestComponent || ++components > kMostComponents ||
            clean.size() + 1 + part.size() > kLongestName)
            return fail(Code::Invalid, "'{}' is too long or too deep", printable(name));
        if (!clean.empty()) clean += '/';
        clean += part;
    }
    return clean;
}

/// Opens the directory one component at a time, making what is missing.
Result<UniqueFd> TreeWriter::make_way(const std::string& directory)
{
    UniqueFd at = open_beneath(root_, "", O_PATH | O_DIRECTORY);
    if (!at) return fail_errno("opening the root of the tree");
    for (std::size_t begin = 0; begin < directory.size();) {
        const std::size_t end = std::min(directory.find('/', begin), directory.size());
        const std::string name = directory.substr(begin, end - begin);
        const std::string path = directory.substr(0, end);
        if (::mkdirat(at.get(), name.c_str(), 0700) == 0) {
            Attributes attributes;
            if (implied_attributes_) {
                BERTH_TRY(attributes, implied_attributes_(path));
            }
            directories_.insert_or_assign(path, std::move(attributes));
            ++implied_;
        } else if (errno != EEXIST) {
            return fail_errno("creating directory '{}'", printable(path));
        }
        UniqueFd next = open_beneath(at.get(), name, O_PATH | O_DIRECTORY);
        if (!next && (errno == ELOOP || errno == ENOTDIR)) return below_no_directory(path);
        if (!next) return fail_errno("opening directory '{}'", printable(path));
        at = std::move(next);
        begin = end + 1;
    }
    return at;
}

Result<int> TreeWriter::parent_of(const std::string& directory)
{
    if (directory.empty()) return root_;
    if (parent_ && directory == parent_path_) return parent_.get();
    UniqueFd opened = open_beneath(root_, directory, O_PATH | O_DIRECTORY);
    // Only a missing directory is made; the slow way also finds out who is no directory.
    if (!opened && (errno == ENOENT || errno == ELOOP || errno == ENOTDIR)) {
        BERTH_TRY(opened, make_way(directory));
    }
    if (!opened) return fail_errno("opening directory '{}'", printable(directory));
    parent_ = std::move(opened);
    parent_path_ = directory;
    return parent_.get();
}

Result<TreeWriter::Place> TreeWriter::place(const std::string& path)
{
    if (path.empty()) return fail(Code::Invalid, "the root of the archive is not a directory");
    const auto slash = path.rfind('/');
    BERTH_TRY(const int parent, parent_of(slash == std::string::npos ? "" : path.substr(0, slash)));
    return Place{.parent = parent, .name = slash == std::string::npos ? path : path.substr(slash + 1)};
}

/// Makes sure that nothing has the name. Unlinking takes a name, never what a link points to.
Status TreeWriter::vacate(const Place& place, const std::string& path)
{
    if (::unlinkat(place.parent, place.name.c_str(), 0) == 0 || errno == ENOENT) return {};
    if (errno != EISDIR) return fail_errno("replacing '{}'", printable(path));
    if (::unlinkat(place.parent, place.name.c_str(), AT_REMOVEDIR) != 0) {
        if (errno == ENOTEMPTY || errno == EEXIST)
            return fail(Code::Invalid, "'{}' would replace a directory that is not empty", printable(path));
        return fail_errno("replacing '{}'", printable(path));
    }
    directories_.erase(path);
    if (parent_path_ == path) parent_.reset();
    return {};
}

mode_t TreeWriter::allowed(mode_t mode) const noexcept
{
    return ids_ == Ids::Sandbox ? mode & 07777 : mode & 01777;
}

/// Owner first: chown takes away set-id bits and capabilities.
Status TreeWriter::apply(int fd, const std::string& path, const Attributes& attributes)
{
    if (ids_ == Ids::Sandbox && ::fchown(fd, attributes.uid, attributes.gid) != 0)
        return fail_errno("giving '{}' to {}:{}", printable(path), attributes.uid, attributes.gid);
    if (::fchmod(fd, allowed(attributes.mode)) != 0)
        return fail_errno("setting the mode of '{}'", printable(path));
    for (const auto& [name, value] : attributes.xattrs) {
        if (::fsetxattr(fd, name.c_str(), value.data(), value.size(), 0) == 0) continue;
        if (errno != ENOTSUP && errno != EPERM && errno != EACCES)
            return fail_errno("setting {} of '{}'", printable(name), printable(path));
        ++dropped_xattrs_;
    }
    if (attributes.mtime) {
        const timespec times[2] = {*attributes.mtime, *attributes.mtime};
        if (::futimens(fd, times) != 0) return fail_errno("setting the time of '{}'", printable(path));
    }
    return {};
}

Status TreeWriter::directory(const std::string& path, Attributes attributes)
{
    if (!path.empty()) {
        BERTH_TRY(const Place at, place(path));
        if (::mkdirat(at.parent, at.name.c_str(), 0700) != 0) {
            if (errno != EEXIST) return fail_errno("creating directory '{}'", printable(path));
            struct stat st{};
            if (::fstatat(at.parent, at.name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0)
                return fail_errno("looking at '{}'", printable(path));
            if (!S_ISDIR(st.st_mode)) {
                BERTH_CHECK(vacate(at, path));
                if (::mkdirat(at.parent, at.name.c_str(), 0700) != 0)
                    return fail_errno("creating directory '{}'", printable(path));
            }
        }
    }
    directories_.insert_or_assign(path, std::move(attributes));
    return {};
}

Result<UniqueFd> TreeWriter::file(const std::string& path)
{
    BERTH_TRY(const Place at, place(path));
    BERTH_CHECK(vacate(at, path));
    UniqueFd fd(
        ::openat(at.parent, at.name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!fd) return fail_errno("creating '{}'", printable(path));
    return fd;
}

Status TreeWriter::seal(int file, const std::string& path, const Attributes& attributes)
{
    return apply(file, path, attributes);
}

Status TreeWriter::symlink(const std::string& path, const std::string& target, const Attributes& attributes)
{
    if (target.empty() || target.size() > kLongestName)
        return fail(Code::Invalid, "link '{}' has an empty or overlong target", printable(path));
    BERTH_TRY(const Place at, place(path));
    BERTH_CHECK(vacate(at, path));
    if (::symlinkat(target.c_str(), at.parent, at.name.c_str()) != 0)
        return fail_errno("creating link '{}'", printable(path));
    if (ids_ == Ids::Sandbox &&
        ::fchownat(at.parent, at.name.c_str(), attributes.uid, attributes.gid, AT_SYMLINK_NOFOLLOW) != 0)
        return fail_errno("giving link '{}' to {}:{}", printable(path), attributes.uid, attributes.gid);
    if (attributes.mtime) {
        const timespec times[2] = {*attributes.mtime, *attributes.mtime};
        if (::utimensat(at.parent, at.name.c_str(), times, AT_SYMLINK_NOFOLLOW) != 0)
            return fail_errno("setting the time of link '{}'", printable(path));
    }
    return {};
}

Status TreeWriter::hardlink(const std::string& path, const std::string& target)
{
    if (path == target) return {};
    const auto slash = target.rfind('/');
    const std::string directory = slash == std::string::npos ? "" : target.substr(0, slash);
    const std::string name = slash == std::string::npos ? target : target.substr(slash + 1);
    const UniqueFd source = open_beneath(root_, directory, O_PATH | O_DIRECTORY);
    if (!source || name.empty())
        return fail(Code::Invalid, "hard link '{}' to '{}': no such file in the archive so far",
                    printable(path), printable(target));

    BERTH_TRY(const Place at, place(path));
    BERTH_CHECK(vacate(at, path));
    // Without AT_SYMLINK_FOLLOW a link would be linked, not what it points to. Judged afterwards, on what
    // the new name really is.
    if (::linkat(source.get(), name.c_str(), at.parent, at.name.c_str(), 0) != 0) {
        if (errno == ENOENT || errno == EPERM)
            return fail(Code::Invalid, "hard link '{}' to '{}': no such file in the archive so far",
                        printable(path), printable(target));
        return fail_errno("creating hard link '{}' to '{}'", printable(path), printable(target));
    }
    struct stat st{};
    if (::fstatat(at.parent, at.name.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
        return {};
    ::unlinkat(at.parent, at.name.c_str(), 0);
    return fail(Code::Invalid, "hard link '{}': '{}' is not a regular file", printable(path),
                printable(target));
}

Status TreeWriter::fifo(const std::string& path, const Attributes& attributes)
{
    BERTH_TRY(const Place at, place(path));
    BERTH_CHECK(vacate(at, path));
    if (::mknodat(at.parent, at.name.c_str(), S_IFIFO | 0600, 0) != 0)
        return fail_errno("creating fifo '{}'", printable(path));
    // With a reader's end held open non-blocking, the attributes can be set by descriptor.
    UniqueFd fd = open_beneath(at.parent, at.name, O_RDONLY | O_NONBLOCK);
    if (!fd) return fail_errno("opening fifo '{}'", printable(path));
    Attributes plain = attributes;
    plain.xattrs.clear();
    return apply(fd.get(), path, plain);
}

bool TreeWriter::has(const std::string& path) const
{
    return static_cast<bool>(open_beneath(root_, path, O_PATH));
}

Status TreeWriter::whiteout(const std::string& path)
{
    BERTH_TRY(const Place at, place(path));
    if (::mknodat(at.parent, at.name.c_str(), S_IFCHR, 0) == 0) return {};
    if (errno != EEXIST)
        return fail_errno("hiding '{}' (a whiteout, which this file system or this user may not make)",
                          printable(path));
    struct stat st{};
    if (::fstatat(at.parent, at.name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0)
        return fail_errno("looking at '{}'", printable(path));
    if (S_ISDIR(st.st_mode)) opaque_.insert(path);
    return {};
}

Status TreeWriter::opaque(const std::string& path)
{
    if (!path.empty()) BERTH_CHECK(parent_of(path));
    opaque_.insert(path);
    return {};
}

Status TreeWriter::finish()
{
    parent_.reset();
    for (const auto& path : opaque_) {
        const UniqueFd dir = open_beneath(root_, path, O_RDONLY | O_DIRECTORY);
        if (!dir || ::fsetxattr(dir.get(), opaque_attribute(), "y", 1, 0) != 0)
            return fail_errno(
                "making '{}' opaque (an attribute, which this file system or this user may not set)",
                printable(path));
    }
    opaque_.clear();
    for (auto at = directories_.rbegin(); at != directories_.rend(); ++at) {
        const UniqueFd dir = open_beneath(root_, at->first, O_RDONLY | O_DIRECTORY);
        if (!dir) return fail_errno("opening directory '{}'", printable(at->first));
        BERTH_CHECK(apply(dir.get(), at->first, at->second));
    }
    directories_.clear();
    return {};
}

} // namespace berth::image

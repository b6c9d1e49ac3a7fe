// Protects the host from the tree it reads: every entry is an O_PATH descriptor, which has no effect on
// pipes and devices, and is judged before it is opened. Relies on the calling thread's rights being those
// of the sandbox; where they are more, on the owner of each file (ReadIds::only_these).
#include "image/tree_reader.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <memory>

#include "base/strings.hpp"
#include "sys/sandbox_files_resolve.hpp"

namespace berth::image {

namespace {

constexpr std::size_t kDeepest = 256;      // each level holds a descriptor
constexpr std::size_t kWidest = 1'000'000; // names of a directory are held and sorted
constexpr std::size_t kMostLinked = 1'000'000;
constexpr std::size_t kMostXattrs = 64u << 10; // as the kernel has it, of one value and of all names
constexpr std::size_t kMostExtents = 50'000;   // of a sparse file: within what TarReader takes for an entry
constexpr std::size_t kReadSize = std::size_t{256} << 10;

Result<std::vector<std::string>> names_in(int directory, const std::string& path)
{
    UniqueFd fd(::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd) return fail_errno("opening directory {}", printable(path));
    const std::unique_ptr<DIR, decltype([](DIR* dir) { ::closedir(dir); })> dir(::fdopendir(fd.get()));
    if (!dir) return fail_errno("reading directory {}", printable(path));
    static_cast<void>(fd.release());
    std::vector<std::string> names;
    while (errno = 0, true) {
        const dirent* const entry = ::readdir(dir.get()); // NOLINT(concurrency-mt-unsafe): our own stream
        if (entry == nullptr) break;
        std::string name = entry->d_name;
        if (name == "." || name == "..") continue;
        if (names.size() == kWidest)
            return fail(Code::Exhausted, "{} has more than {} entries", printable(path), kWidest);
        names.push_back(std::move(name));
    }
    if (errno != 0) return fail_errno("reading directory {}", printable(path));
    std::ranges::sort(names);
    return names;
}

int open_in(int directory, const std::string& name, std::uint64_t resolve)
{
    const open_how how{.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
                       .mode = 0,
                       .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | resolve};
    return static_cast<int>(::syscall(SYS_openat2, directory, name.c_str(), &how, sizeof how));
}

/// Where the file has data. Empty where it cannot be told, or is not worth telling: it is written in full
/// then, but not where that would be much more than it takes in the sandbox, whose limits count no holes.
Result<std::vector<TarExtent>> extents_of(int file, const struct stat& st, const std::string& path)
{
    constexpr int full = 4; // times of what it takes
    std::vector<TarExtent> out;
    const auto size = st.st_size;
    const auto taken = st.st_blocks * 512;
    if (size == 0 || taken >= size) return out;
    for (off_t at = 0; at < size;) {
        const off_t data = ::lseek(file, at, SEEK_DATA);
        if (data < 0 && errno == ENXIO) break;
        const off_t hole = data < 0 ? -1 : ::lseek(file, data, SEEK_HOLE);
        if (out.size() == kMostExtents && size / full > taken)
            return fail(Code::Exhausted, "{} has more than {} holes", printable(path), kMostExtents);
        if (hole < 0 || out.size() == kMostExtents) return std::vector<TarExtent>{};
        const off_t end = std::min(hole, size);
        if (data < end)
            out.push_back(
                {.offset = static_cast<std::uint64_t>(data), .size = static_cast<std::uint64_t>(end - data)});
        at = end;
    }
    if (out.size() == 1 && out[0].size == static_cast<std::uint64_t>(size)) return std::vector<TarExtent>{};
    const auto end = static_cast<std::uint64_t>(size);
    if (out.empty() || out.back().offset + out.back().size < end) out.push_back({.offset = end, .size = 0});
    return out;
}

/// "./a//b/" as "a/b".
std::string normal(const std::string& path)
{
    std::string out;
    for (const auto& part : split(path, '/')) {
        if (part.empty() || part == ".") continue;
        if (!out.empty()) out += '/';
        out += part;
    }
    return out;
}

} // namespace

std::uint64_t ReadIds::inside(std::uint32_t id, std::uint32_t first) const noexcept
{
    if (count == 0) return id;
    constexpr std::uint64_t nobody = 65534;
    return id - first < count ? std::uint64_t{id} - first + shown : nobody;
}

TreeReader::TreeReader(ArchiveOptions options, ReadIds ids) : options_(std::move(options)), ids_(ids)
{
    for (const auto& path : options_.skip) skip_.insert(normal(path));
}

Result<TreeReader> TreeReader::open(UniqueFd start, const std::string& name, ArchiveOptions options,
                                    ReadIds ids)
{
    TreeReader reader(std::move(options), ids);
    struct stat st{};
    if (::fstat(start.get(), &st) != 0) return fail_errno("looking at {}", printable(name));
    BERTH_CHECK(reader.check_owner(st, name));
    if (S_ISREG(st.st_mode)) {
        Level one;
        one.names.push_back(name);
        one.directory = std::move(start);
        reader.levels_.push_back(std::move(one));
        return reader;
    }
    if (!S_ISDIR(st.st_mode))
        return fail(Code::Invalid, "{} is neither a directory nor a regular file", printable(name));
    Level root;
    BERTH_TRY(root.names, names_in(start.get(), name));
    root.names.insert(root.names.begin(), "."); // sorts before every name a directory can have
    root.directory = std::move(start);
    reader.levels_.push_back(std::move(root));
    return reader;
}

Result<bool> TreeReader::read(std::string& out, std::size_t wanted)
{
    while (out.size() < wanted) {
        if (file_.content) {
            BERTH_CHECK(content(out, wanted));
        } else if (!levels_.empty()) {
            BERTH_CHECK(entry(out));
        } else if (!ended_) {
            out += tar::end();
            ended_ = true;
        } else {
            return false;
        }
    }
    return true;
}

Status TreeReader::check_owner(const struct stat& st, const std::string& path) const
{
    if (!ids_.only_these || ids_.holds(st)) return {};
    // What root of the sandbox may read by its mode is not more than anybody may.
    const bool open_to_all =
        (st.st_mode & S_IROTH) != 0 && (!S_ISDIR(st.st_mode) || (st.st_mode & S_IXOTH) != 0);
    if (open_to_all || S_ISLNK(st.st_mode)) return {};
    return fail(Code::Denied, "{} belongs to nobody in the sandbox", printable(path));
}

TarMember TreeReader::member_of(const struct stat& st, const std::string& path) const
{
    return {.name = path,
            .kind = S_ISDIR(st.st_mode)   ? TarMember::Kind::Directory
                    : S_ISLNK(st.st_mode) ? TarMember::Kind::Symlink
                                          : TarMember::Kind::File,
            .target = {},
            .mode = st.st_mode & 07777,
            .uid = ids_.inside(st.st_uid, ids_.first_uid),
            .gid = ids_.inside(st.st_gid, ids_.first_gid),
            .size = static_cast<std::uint64_t>(st.st_size),
            .modified = st.st_mtim};
}

/// Those that belong to users; the rest means something to the kernel, and what it means there is not for us.
Status TreeReader::add_xattrs(int object, TarMember& member) const
{
    if (!options_.whole) return {};
    std::string names(kMostXattrs, '\0');
    const ssize_t size = ::flistxattr(object, names.data(), names.size());
    if (size < 0 && errno == ENOTSUP) return {};
    if (size < 0) return fail_errno("listing the attributes of {}", printable(member.name));
    names.resize(static_cast<std::size_t>(size));
    for (std::size_t at = 0; at < names.size();) {
        const std::string name(names.c_str() + at);
        at += name.size() + 1;
        if (!name.starts_with("user.") || name.starts_with("user.overlay.")) continue;
        std::string value(kMostXattrs, '\0');
        const ssize_t got = ::fgetxattr(object, name.c_str(), value.data(), value.size());
        if (got < 0 && errno == ENODATA) continue;
        if (got < 0) return fail_errno("reading an attribute of {}", printable(member.name));
        value.resize(static_cast<std::size_t>(got));
        member.xattrs.emplace_back(name, std::move(value));
    }
    return {};
}

void TreeReader::leave_out(const std::string& path, std::string_view why) const
{
    if (options_.left_out) options_.left_out(path, why);
}

/// The next name of the deepest directory.
Status TreeReader::entry(std::string& out)
{
    Level& level = levels_.back();
    if (level.next == level.names.size()) {
        levels_.pop_back();
        return {};
    }
    const std::string name = level.names[level.next++];
    const std::string path = level.path + name;
    struct stat st{};
    if (::fstat(level.directory.get(), &st) != 0) return fail_errno("looking at {}", printable(path));
    if (name == ".") {
        out += tar::header(member_of(st, name));
        return {};
    }
    if (S_ISREG(st.st_mode)) return add(level.directory.get(), st, path, out); // the file that was asked for
    if (skip_.contains(path)) return {};
    UniqueFd object(open_in(level.directory.get(), name, RESOLVE_NO_XDEV));
    if (!object && errno == ENOENT) return {}; // gone since
    const bool mounted = !object && errno == EXDEV;
    if (!object && !mounted) return fail_errno("opening {}", printable(path));
    if (mounted) {
        object.reset(open_in(level.directory.get(), name, 0));
        if (!object || ::fstat(object.get(), &st) != 0) return fail_errno("opening {}", printable(path));
        const auto kernels = sys::resolve_in(level.directory.get(), name, O_NOFOLLOW);
        if (!options_.mounts || !kernels) {
            leave_out(path, "it is mounted there");
            if (!S_ISDIR(st.st_mode)) return {};
            out += tar::header(
                {.name = path, .kind = TarMember::Kind::Directory, .mode = 0755, .modified = st.st_mtim});
            return {};
        }
    }
    if (::fstat(object.get(), &st) != 0) return fail_errno("looking at {}", printable(path));
    return add(object.get(), st, path, out);
}

Status TreeReader::add(int object, const struct stat& st, const std::string& path, std::string& out)
{
    TarMember member = member_of(st, path);
    if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) BERTH_CHECK(check_owner(st, path));
    if (S_ISREG(st.st_mode)) {
        if (!options_.whole || st.st_nlink < 2 || linked_.size() == kMostLinked)
            return open_file(object, std::move(member), out);
        const auto [first, is_new] = linked_.try_emplace({st.st_dev, st.st_ino}, path);
        if (is_new) return open_file(object, std::move(member), out);
        member.kind = TarMember::Kind::Hardlink;
        member.target = first->second;
        out += tar::header(member);
        return {};
    }
    if (S_ISDIR(st.st_mode)) {
        const UniqueFd opened(options_.whole ? ::openat(object, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                                             : -1);
        if (opened) BERTH_CHECK(add_xattrs(opened.get(), member));
        out += tar::header(member);
        return enter(object, path + "/");
    }
    if (S_ISLNK(st.st_mode)) {
        std::string target(PATH_MAX, '\0');
        const ssize_t size = ::readlinkat(object, "", target.data(), target.size());
        if (size < 0) return fail_errno("reading the link {}", printable(path));
        target.resize(static_cast<std::size_t>(size));
        member.target = std::move(target);
        out += tar::header(member);
        return {};
    }
    if (S_ISFIFO(st.st_mode) && options_.whole) {
        member.kind = TarMember::Kind::Fifo;
        out += tar::header(member);
        return {};
    }
    leave_out(path, S_ISSOCK(st.st_mode) ? "a socket" : S_ISFIFO(st.st_mode) ? "a pipe" : "a device");
    return {};
}

Status TreeReader::enter(int object, std::string path)
{
    if (levels_.size() == kDeepest)
        return fail(Code::Invalid, "{} is deeper than {} directories", printable(path, 200), kDeepest);
    Level level;
    BERTH_TRY(level.names, names_in(object, path));
    level.directory.reset(::openat(object, ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!level.directory) return fail_errno("opening directory {}", printable(path));
    level.path = std::move(path);
    levels_.push_back(std::move(level));
    return {};
}

Status TreeReader::open_file(int object, TarMember member, std::string& out)
{
    File file;
    BERTH_TRY(file.content, sys::open_regular(object, O_RDONLY, member.name));
    struct stat st{};
    if (::fstat(file.content.get(), &st) != 0) return fail_errno("looking at {}", printable(member.name));
    member.size = static_cast<std::uint64_t>(st.st_size);
    file.path = member.name;
    BERTH_CHECK(add_xattrs(file.content.get(), member));
    BERTH_TRY(file.extents, extents_of(file.content.get(), st, member.name));
    if (file.extents.empty()) {
        file.extents.push_back({.offset = 0, .size = member.size});
        out += tar::header(member);
    } else {
        out += tar::sparse_header(member, file.extents);
    }
    for (const auto& extent : file.extents) file.stored += extent.size;
    // The one file that was asked for is its own place, and done with.
    if (levels_.size() == 1 && levels_[0].directory.get() == object) levels_.clear();
    file_ = std::move(file);
    return {};
}

Status TreeReader::content(std::string& out, std::size_t wanted)
{
    while (file_.at < file_.extents.size() && out.size() < wanted) {
        const TarExtent& extent = file_.extents[file_.at];
        if (file_.offset == extent.size) {
            ++file_.at;
            file_.offset = 0;
            continue;
        }
        const auto size =
            static_cast<std::size_t>(std::min<std::uint64_t>(extent.size - file_.offset, kReadSize));
        const std::size_t before = out.size();
        out.resize(before + size);
        const ssize_t n = ::pread(file_.content.get(), out.data() + before, size,
                                  static_cast<off_t>(extent.offset + file_.offset));
        if (n < 0 && errno == EINTR) {
            out.resize(before);
            continue;
        }
        if (n < 0) return fail_errno("reading {}", printable(file_.path));
        // It has shrunk: the zeros are there already.
        const std::size_t got = n == 0 ? size : static_cast<std::size_t>(n);
        out.resize(before + got);
        file_.offset += got;
    }
    if (file_.at < file_.extents.size()) return {};
    out += tar::padding(file_.stored);
    file_ = File{};
    return {};
}

} // namespace berth::image

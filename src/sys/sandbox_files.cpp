// Protects the host, and other users of the sandbox, from what a path inside a sandbox may lead to.
// Each operation resolves once and then acts on descriptors; see sandbox_files_resolve for how a
// path is resolved and file_credentials for whose rights are used.
#include "sys/sandbox_files.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <climits>

#include "base/io.hpp"
#include "base/scope_exit.hpp"
#include "base/strings.hpp"
#include "sys/remove_tree.hpp"
#include "sys/sandbox_files_resolve.hpp"

namespace berth::sys {
namespace {

constexpr unsigned kPermissions = 0777;
constexpr unsigned kDefaultMode = 0644;

/// What was made, by descriptor: whoever gives it away meets nothing else.
using Made = std::vector<UniqueFd>;

/// Puts the content into an open file.
using Filler = std::function<Status(int file)>;

FileEntry describe(std::string name, const struct stat& st)
{
    FileEntry entry;
    entry.name = std::move(name);
    entry.kind = S_ISREG(st.st_mode)   ? FileKind::Regular
                 : S_ISDIR(st.st_mode) ? FileKind::Directory
                 : S_ISLNK(st.st_mode) ? FileKind::Symlink
                                       : FileKind::Other;
    entry.size = Bytes{static_cast<std::uint64_t>(st.st_size)};
    entry.mode = st.st_mode & 07777;
    entry.uid = st.st_uid;
    entry.gid = st.st_gid;
    entry.modified =
        WallTime(std::chrono::seconds(st.st_mtim.tv_sec) + std::chrono::nanoseconds(st.st_mtim.tv_nsec));
    return entry;
}

/// Empty when it went away meanwhile.
std::string link_target(int directory, const char* name)
{
    std::string target(PATH_MAX, '\0');
    const ssize_t size = ::readlinkat(directory, name, target.data(), target.size());
    target.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
    return target;
}

Status fill_in_place(int root, const std::string& path, const WriteOptions& options, const Filler& fill,
                     Made& made)
{
    UniqueFd file;
    if (auto object = resolve_in(root, path)) {
        BERTH_TRY(file, open_regular(object->get(), O_WRONLY | O_TRUNC, path));
        if (options.mode && ::fchmod(file.get(), *options.mode & kPermissions) != 0)
            return fail_errno("changing the mode of {}", printable(path));
    } else {
        if (object.error().code != Code::NotFound) return std::unexpected(std::move(object).error());
        BERTH_TRY(const auto place, resolve_place(root, path));
        file.reset(::openat(place.directory.get(), place.name.c_str(),
                            O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC,
                            options.mode.value_or(kDefaultMode) & kPermissions));
        if (!file) return fail_errno("creating {}", printable(path));
        if (options.owner) {
            made.emplace_back(::fcntl(file.get(), F_DUPFD_CLOEXEC, 0));
            if (!made.back()) return fail_errno("holding {}", printable(path));
        }
    }
    return fill(file.get());
}

Status fill_atomically(int root, const std::string& path, const WriteOptions& options, const Filler& fill)
{
    BERTH_TRY(const auto place, resolve_place(root, path));
    const int directory = place.directory.get();
    struct stat old{};
    const bool exists = ::fstatat(directory, place.name.c_str(), &old, AT_SYMLINK_NOFOLLOW) == 0;
    const bool fresh = options.how == WriteOptions::How::New;
    if (exists && fresh) return fail(Code::Conflict, "{} exists", printable(path));
    if (exists && !S_ISREG(old.st_mode) && !S_ISLNK(old.st_mode))
        return fail(Code::Invalid, "{} is not a regular file", printable(path));
    const unsigned kept = exists && S_ISREG(old.st_mode) ? old.st_mode : kDefaultMode;

    std::uint64_t random = 0;
    if (::getrandom(&random, sizeof random, 0) != static_cast<ssize_t>(sizeof random))
        return fail_errno("drawing a random name");
    const std::string temporary = fmt::format(".berth-{:016x}.tmp", random);
    const UniqueFd file(::openat(directory, temporary.c_str(),
                                 O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC, 0600));
    if (!file) return fail_errno("creating a temporary beside {}", printable(path));
    ScopeExit discard([&] { ::unlinkat(directory, temporary.c_str(), 0); });
    BERTH_CHECK(fill(file.get()));
    if (::fchmod(file.get(), options.mode.value_or(kept) & kPermissions) != 0)
        return fail_errno("setting the mode of {}", printable(path));
    if (::renameat2(directory, temporary.c_str(), directory, place.name.c_str(),
                    fresh ? RENAME_NOREPLACE : 0) != 0)
        return fail_errno("giving {} its name", printable(path));
    discard.dismiss();
    return {};
}

Status fill_file(int root, const std::string& path, const WriteOptions& options, const Filler& fill,
                 Made& made)
{
    return options.how == WriteOptions::How::InPlace ? fill_in_place(root, path, options, fill, made)
                                                     : fill_atomically(root, path, options, fill);
}

Status copy_until_end(int source, int file, Bytes limit, const std::string& path)
{
    std::vector<char> buffer(std::size_t{256} << 10);
    for (std::uint64_t total = 0;;) {
        const ssize_t n = ::read(source, buffer.data(), buffer.size());
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_errno("reading what is to become {}", printable(path));
        if (n == 0) return {};
        total += static_cast<std::uint64_t>(n);
        if (total > limit.count)
            return fail(Code::Invalid, "{} would be larger than {} bytes", printable(path), limit.count);
        if (auto put = write_all(file, {buffer.data(), static_cast<std::size_t>(n)}); !put)
            return std::unexpected(std::move(put).error().while_doing("writing " + printable(path)));
    }
}

Result<std::vector<FileEntry>> list_entries(int root, const std::string& path, std::size_t max_entries)
{
    BERTH_TRY(const auto object, resolve_in(root, path, O_DIRECTORY));
    UniqueFd fd(::openat(object.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!fd) return fail_errno("opening directory {}", printable(path));
    const std::unique_ptr<DIR, decltype([](DIR* dir) { ::closedir(dir); })> dir(::fdopendir(fd.get()));
    if (!dir) return fail_errno("reading directory {}", printable(path));
    static_cast<void>(fd.release());

    std::vector<FileEntry> entries;
    while (errno = 0, true) {
        const dirent* const entry = ::readdir(dir.get());
        if (!entry) break;
        const std::string name = entry->d_name;
        if (name == "." || name == "..") continue;
        if (entries.size() == max_entries)
            return fail(Code::Invalid, "{} has more than {} entries", printable(path), max_entries);
        struct stat st{};
        if (::fstatat(::dirfd(dir.get()), name.c_str(), &st, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT) != 0) {
            if (errno == ENOENT) continue; // gone since
            return fail_errno("looking at {}/{}", printable(path), printable(name));
        }
        entries.push_back(describe(name, st));
        if (S_ISLNK(st.st_mode)) entries.back().target = link_target(::dirfd(dir.get()), name.c_str());
    }
    if (errno != 0) return fail_errno("reading directory {}", printable(path));
    std::ranges::sort(entries, {}, &FileEntry::name);
    return entries;
}

Result<FileEntry> stat_entry(int root, const std::string& path, Follow follow)
{
    BERTH_TRY(const auto object, resolve_in(root, path, follow == Follow::No ? O_NOFOLLOW : 0));
    struct stat st{};
    if (::fstat(object.get(), &st) != 0) return fail_errno("looking at {}", printable(path));
    FileEntry entry = describe(last_component(path), st);
    if (S_ISLNK(st.st_mode)) entry.target = link_target(object.get(), "");
    return entry;
}

Status make_one(int root, const std::string& path, unsigned mode, Made* made)
{
    BERTH_TRY(const auto place, resolve_place(root, path));
    if (::mkdirat(place.directory.get(), place.name.c_str(), mode & kPermissions) != 0)
        return fail_errno("creating directory {}", printable(path));
    if (made != nullptr)
        made->emplace_back(::openat(place.directory.get(), place.name.c_str(),
                                    O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    return {};
}

Status make_all(int root, const std::string& path, unsigned mode, Made* made)
{
    for (std::size_t at = 0; at != std::string::npos;) {
        at = path.find('/', at + 1);
        const std::string part = path.substr(0, at);
        const std::string name = last_component(part);
        if (name == "/" || name == "." || name == "..") continue;
        // A file of that name shows up as ENOTDIR when the next part, or the whole, is opened.
        auto one = make_one(root, part, mode, made);
        if (!one && one.error().code != Code::Conflict) return one;
    }
    BERTH_TRY(const auto there, resolve_in(root, path, O_DIRECTORY));
    return {};
}

/// With the caller's own rights: the ids may give nothing away. One that took the place of what was made,
/// which only whoever has these rights inside can do, must be as new.
Status give_away(const Made& made, FileOwner from, FileOwner to, const std::string& path)
{
    for (const auto& one : made) {
        if (!one) continue; // gone since
        struct stat st{};
        if (::fstat(one.get(), &st) != 0) return fail_errno("looking at {}", printable(path));
        if (st.st_uid != from.uid || (S_ISREG(st.st_mode) && st.st_nlink > 1)) continue;
        if (::fchownat(one.get(), "", to.uid, to.gid, AT_EMPTY_PATH) != 0)
            return fail_errno("giving {} to its user", printable(path));
    }
    return {};
}

Status move_entry(int root, const std::string& from, const std::string& to, Replace replace)
{
    BERTH_TRY(const auto source, resolve_place(root, from));
    BERTH_TRY(const auto target, resolve_place(root, to));
    const unsigned flags = replace == Replace::No ? RENAME_NOREPLACE : 0;
    if (::renameat2(source.directory.get(), source.name.c_str(), target.directory.get(), target.name.c_str(),
                    flags) == 0)
        return {};
    if (errno == EXDEV)
        return fail(Code::Unsupported, "{} and {} are on different file systems", printable(from),
                    printable(to));
    return fail_errno("moving {} to {}", printable(from), printable(to));
}

Status remove_entry(int root, const std::string& path, Depth depth)
{
    BERTH_TRY(const auto place, resolve_place(root, path));
    const int directory = place.directory.get();
    if (::unlinkat(directory, place.name.c_str(), 0) == 0) return {};
    if (errno == EISDIR) {
        if (::unlinkat(directory, place.name.c_str(), AT_REMOVEDIR) == 0) return {};
        if ((errno == ENOTEMPTY || errno == EEXIST) && depth == Depth::Tree)
            return remove_tree(directory, place.name);
    }
    return fail_errno("removing {}", printable(path));
}

} // namespace

Result<SandboxFiles> SandboxFiles::open(UniqueFd root, FileCredentials credentials)
{
    BERTH_CHECK(act_as(credentials, [] {})); // told now, and not by the first file
    return SandboxFiles(std::move(root), std::move(credentials));
}

Result<UniqueFd> SandboxFiles::open_file(const std::string& path) const
{
    return run([&](int root) -> Result<UniqueFd> {
        BERTH_TRY(const auto object, resolve_in(root, path));
        return open_regular(object.get(), O_RDONLY, path);
    });
}

Result<std::string> SandboxFiles::read(const std::string& path, Bytes limit) const
{
    BERTH_TRY(const auto file, open_file(path));
    return read_to_end(file.get(), limit, printable(path));
}

Status SandboxFiles::write(const std::string& path, std::string_view bytes, const WriteOptions& options) const
{
    return fill(path, options, [&](int file) -> Status {
        if (auto put = write_all(file, bytes); !put)
            return std::unexpected(std::move(put).error().while_doing("writing " + printable(path)));
        return {};
    });
}

Status SandboxFiles::write_from(const std::string& path, int source, Bytes limit,
                                const WriteOptions& options) const
{
    return fill(path, options, [&](int file) { return copy_until_end(source, file, limit, path); });
}

Status SandboxFiles::fill(const std::string& path, const WriteOptions& options,
                          const std::function<Status(int file)>& filler) const
{
    Made made;
    auto done = run([&](int root) { return fill_file(root, path, options, filler, made); });
    if (options.owner) BERTH_CHECK(give_away(made, ids(), *options.owner, path));
    return done;
}

Result<std::vector<FileEntry>> SandboxFiles::list(const std::string& path, std::size_t max_entries) const
{
    return run([&](int root) { return list_entries(root, path, max_entries); });
}

Result<FileEntry> SandboxFiles::stat(const std::string& path, Follow follow) const
{
    return run([&](int root) { return stat_entry(root, path, follow); });
}

Status SandboxFiles::make_dir(const std::string& path, unsigned mode, Parents parents,
                              std::optional<FileOwner> owner) const
{
    Made made;
    Made* const kept = owner ? &made : nullptr;
    auto done = run([&](int root) {
        return parents == Parents::Make ? make_all(root, path, mode, kept) : make_one(root, path, mode, kept);
    });
    if (owner) BERTH_CHECK(give_away(made, ids(), *owner, path));
    return done;
}

Status SandboxFiles::move(const std::string& from, const std::string& to, Replace replace) const
{
    return run([&](int root) { return move_entry(root, from, to, replace); });
}

Status SandboxFiles::remove(const std::string& path, Depth depth) const
{
    return run([&](int root) { return remove_entry(root, path, depth); });
}

} // namespace berth::sys

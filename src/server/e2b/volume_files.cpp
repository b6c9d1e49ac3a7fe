// Protects the host from what lies in a volume: sandboxes put symlinks, pipes and renames there while we
// look. Every path is resolved by openat2 below the volume's own directory, and an object is judged by
// descriptor before it is opened or changed.

#include "server/e2b/volume_files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>

#include "base/strings.hpp"
#include "server/gate/spool.hpp"
#include "sys/sandbox_files_resolve.hpp"

namespace berth::e2b {

namespace {

constexpr std::uint32_t kUser = 1000; // whose a file is when nobody says so
constexpr std::size_t kMostEntries = 100'000;
constexpr unsigned kChangeable = 01777; // set-id bits are nobody's business here

bool privileged() { return ::geteuid() == 0; }

/// An ordinary user's sandboxes have one account, which is this process's own.
std::uint32_t inside(std::uint32_t id, std::uint32_t own) { return !privileged() && id == own ? kUser : id; }

WallTime time_of(const timespec& time)
{
    return WallTime(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
}

VolumeEntry describe(std::string path, const struct stat& st)
{
    VolumeEntry out;
    out.path = std::move(path);
    out.kind = S_ISREG(st.st_mode)   ? sys::FileKind::Regular
               : S_ISDIR(st.st_mode) ? sys::FileKind::Directory
               : S_ISLNK(st.st_mode) ? sys::FileKind::Symlink
                                     : sys::FileKind::Other;
    out.size = static_cast<std::uint64_t>(st.st_size);
    out.mode = st.st_mode & 07777;
    out.uid = inside(st.st_uid, ::geteuid());
    out.gid = inside(st.st_gid, ::getegid());
    out.accessed = time_of(st.st_atim);
    out.modified = time_of(st.st_mtim);
    out.changed = time_of(st.st_ctim);
    return out;
}

std::string below(const std::string& path, const std::string& name)
{
    return path == "/" ? "/" + name : path + "/" + name;
}

Status check_ids(const VolumeOwner& owner)
{
    if (privileged()) return {};
    for (const auto& id : {owner.uid, owner.gid})
        if (id && *id != kUser)
            return fail(Code::Invalid,
                        "this server is an ordinary user's: files of a volume belong to {} and nobody else",
                        kUser);
    return {};
}

} // namespace

Result<VolumeFiles> VolumeFiles::open(UniqueFd root)
{
    sys::FileCredentials as{
        .uid = kUser, .gid = kUser, .groups = {}, .reads_all = false, .changes_all = true};
    if (!privileged()) {
        as.uid = ::geteuid();
        as.gid = ::getegid();
    }
    BERTH_TRY(auto files, sys::SandboxFiles::open(std::move(root), std::move(as)));
    return VolumeFiles(std::move(files));
}

Status VolumeFiles::adopt(int root)
{
    struct stat st{};
    if (::fstat(root, &st) != 0) return fail_errno("looking at a volume");
    if (!privileged() || st.st_uid != 0 || st.st_gid != 0) return {};
    if (::fchown(root, kUser, kUser) != 0) return fail_errno("giving a volume to its user");
    return {};
}

Result<VolumeEntry> VolumeFiles::stat(const std::string& path) const
{
    return files_.run([&](int root) -> Result<VolumeEntry> {
        BERTH_TRY(const auto object, sys::resolve_in(root, path, O_NOFOLLOW));
        struct stat st{};
        if (::fstat(object.get(), &st) != 0) return fail_errno("looking at {}", printable(path));
        auto out = describe(path, st);
        if (!S_ISLNK(st.st_mode)) return out;
        out.target.resize(PATH_MAX);
        const auto size = ::readlinkat(object.get(), "", out.target.data(), out.target.size());
        out.target.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
        return out;
    });
}

Result<std::vector<VolumeEntry>> VolumeFiles::list(const std::string& path, unsigned depth) const
{
    struct Level {
        std::string path;
        std::vector<sys::FileEntry> names;
        std::size_t next = 0;
    };
    std::vector<VolumeEntry> out;
    BERTH_TRY(auto first, files_.list(path, kMostEntries));
    std::vector<Level> levels;
    levels.push_back({.path = path, .names = std::move(first)});
    while (!levels.empty()) {
        auto& level = levels.back();
        if (level.next == level.names.size()) {
            levels.pop_back();
            continue;
        }
        const auto& name = level.names[level.next++];
        const bool deeper = name.kind == sys::FileKind::Directory && levels.size() < depth;
        auto entry = stat(below(level.path, name.name));
        if (!entry) continue; // gone since
        if (out.size() == kMostEntries)
            return fail(Code::Invalid, "{} has more than {} entries", printable(path), kMostEntries);
        std::string place = entry->path;
        out.push_back(*std::move(entry));
        if (!deeper) continue;
        if (auto more = files_.list(place, kMostEntries))
            levels.push_back({.path = std::move(place), .names = *std::move(more)});
    }
    return out;
}

Status VolumeFiles::give(const std::string& path, const VolumeOwner& owner) const
{
    BERTH_CHECK(check_ids(owner));
    return files_.run([&](int root) -> Status {
        BERTH_TRY(const auto object, sys::resolve_in(root, path));
        if (privileged() && (owner.uid || owner.gid)) {
            const auto uid = owner.uid ? static_cast<uid_t>(*owner.uid) : static_cast<uid_t>(-1);
            const auto gid = owner.gid ? static_cast<gid_t>(*owner.gid) : static_cast<gid_t>(-1);
            if (::fchownat(object.get(), "", uid, gid, AT_EMPTY_PATH) != 0)
                return fail_errno("giving {} to {}:{}", printable(path), uid, gid);
        }
        if (!owner.mode) return {};
        struct stat st{};
        if (::fstat(object.get(), &st) != 0) return fail_errno("looking at {}", printable(path));
        if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
            return fail(Code::Invalid, "{} is neither a file nor a directory", printable(path));
        // Our own descriptor's link leads to what was judged.
        const auto link = fmt::format("/proc/thread-self/fd/{}", object.get());
        if (::chmod(link.c_str(), *owner.mode & kChangeable) != 0)
            return fail_errno("changing the mode of {}", printable(path));
        return {};
    });
}

Result<VolumeEntry> VolumeFiles::change(const std::string& path, const VolumeOwner& owner) const
{
    BERTH_CHECK(give(path, owner));
    return stat(path);
}

Result<VolumeEntry> VolumeFiles::make_dir(const std::string& path, const VolumeOwner& owner,
                                          bool parents) const
{
    BERTH_CHECK(check_ids(owner));
    BERTH_CHECK(files_.make_dir(path, 0755, parents ? sys::Parents::Make : sys::Parents::Existing));
    return change(path, owner);
}

Result<VolumeEntry> VolumeFiles::write(const std::string& path, int source, const VolumeOwner& owner,
                                       bool force) const
{
    BERTH_CHECK(check_ids(owner));
    const auto above = path.substr(0, path.rfind('/'));
    if (force && !above.empty()) BERTH_CHECK(files_.make_dir(above, 0755, sys::Parents::Make));
    using How = sys::WriteOptions::How;
    BERTH_CHECK(files_.write_from(path, source, gate::kUploadLimit,
                                  {.how = force ? How::InPlace : How::New, .mode = {}}));
    return change(path, owner);
}

Status VolumeFiles::remove(const std::string& path) const { return files_.remove(path, sys::Depth::Tree); }

} // namespace berth::e2b

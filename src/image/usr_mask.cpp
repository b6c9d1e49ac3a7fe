// Looks at every file below /usr with as few system calls as can be: one stat each (none for a
// link), one open and close for each directory.

#include "image/usr_mask.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <unordered_set>

#include "base/unique_fd.hpp"

namespace berth::image {

namespace {

/// Each level holds a descriptor.
constexpr int kDeepest = 200;

using Listing = std::unique_ptr<DIR, decltype([](DIR* dir) { ::closedir(dir); })>;

/// What a layer of an overlay shows of /usr: a private clone of the mount, without the mounts on it.
struct Source {
    UniqueFd clone; ///< empty where it is not allowed (root of a container)
    UniqueFd dir;
};

Result<Source> open_usr(int host_root)
{
    UniqueFd clone(::open_tree(host_root, "usr", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_SYMLINK_NOFOLLOW));
    UniqueFd dir(clone ? ::openat(clone.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
                       : ::openat(host_root, "usr", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!dir) return fail_errno("opening the host's /usr");
    return Source{.clone = std::move(clone), .dir = std::move(dir)};
}

class Scan {
public:
    Scan(dev_t device, bool without_mounts) : device_(device), without_mounts_(without_mounts) {}

    Status directory(UniqueFd dir, const std::string& path, int depth)
    {
        if (depth > kDeepest)
            return fail(Code::Exhausted, "/usr/{} lies more than {} directories deep", path, kDeepest);
        const Listing listing(::fdopendir(dir.get()));
        if (!listing) return fail_errno("reading /usr/{}", path);
        const int fd = dir.release();
        const std::string prefix = path.empty() ? path : path + "/";
        for (;;) {
            errno = 0;
            const dirent* entry = ::readdir(listing.get()); // NOLINT(concurrency-mt-unsafe): ours alone
            if (entry == nullptr && errno != 0) return fail_errno("reading /usr/{}", path);
            if (entry == nullptr) return {};
            if (entry->d_type == DT_LNK || std::strcmp(entry->d_name, ".") == 0 ||
                std::strcmp(entry->d_name, "..") == 0)
                continue;
            BERTH_CHECK(look_at(fd, entry->d_name, prefix, depth));
        }
    }

    [[nodiscard]] std::vector<std::string> take() && { return std::move(hidden_); }

private:
    Status look_at(int dir, const char* name, const std::string& prefix, int depth)
    {
        struct stat st{};
        if (::fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
            if (errno == ENOENT) return {}; // removed meanwhile; the fingerprint notices
            return fail_errno("looking at /usr/{}{}", prefix, name);
        }
        if (must_hide(st)) {
            hidden_.push_back(prefix + name);
            return {};
        }
        if (!S_ISDIR(st.st_mode)) return {};
        UniqueFd inner(::openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
        if (!inner) return fail_errno("opening /usr/{}{}", prefix, name);
        return directory(std::move(inner), prefix + name, depth + 1);
    }

    [[nodiscard]] bool must_hide(const struct stat& st) const
    {
        if (S_ISLNK(st.st_mode)) return false;
        if (S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)) return true;
        if (!S_ISDIR(st.st_mode)) return (st.st_mode & S_IROTH) == 0;
        // A mount hides a directory that the layer shows and that cannot be looked at from here.
        if (!without_mounts_ && st.st_dev != device_) return true;
        return (st.st_mode & (S_IROTH | S_IXOTH)) != (S_IROTH | S_IXOTH);
    }

    dev_t device_;
    bool without_mounts_;
    std::vector<std::string> hidden_;
};

/// Mode and owner of a directory: the topmost layer that has it decides what is seen of it.
Status copy_attributes(int usr, int layer, const std::string& path)
{
    struct stat st{};
    if (::fstatat(usr, path.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0)
        return fail_errno("looking at /usr/{}", path);
    if (::fchownat(layer, path.c_str(), st.st_uid, st.st_gid, AT_SYMLINK_NOFOLLOW) != 0 ||
        ::fchmodat(layer, path.c_str(), st.st_mode & 07777, 0) != 0)
        return fail_errno("giving {} of the mask its owner and mode", path);
    return {};
}

Status make_parents(int usr, int layer, const std::string& path, std::unordered_set<std::string>& made)
{
    for (auto slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1)) {
        const std::string parent = path.substr(0, slash);
        if (!made.insert(parent).second) continue;
        if (::mkdirat(layer, parent.c_str(), 0700) != 0) return fail_errno("creating {} of the mask", parent);
        BERTH_CHECK(copy_attributes(usr, layer, parent));
    }
    return {};
}

} // namespace

Result<std::vector<std::string>> make_usr_mask(int layer, int host_root)
{
    BERTH_TRY(const Source usr, open_usr(host_root));
    struct stat st{};
    if (::fstat(usr.dir.get(), &st) != 0) return fail_errno("looking at the host's /usr");
    UniqueFd own(::openat(usr.dir.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!own) return fail_errno("opening the host's /usr");

    Scan scan(st.st_dev, static_cast<bool>(usr.clone));
    BERTH_CHECK(scan.directory(std::move(own), "", 0));
    std::vector<std::string> hidden = std::move(scan).take();

    BERTH_CHECK(copy_attributes(usr.dir.get(), layer, "."));
    std::unordered_set<std::string> made;
    for (const auto& path : hidden) {
        BERTH_CHECK(make_parents(usr.dir.get(), layer, path, made));
        if (::mknodat(layer, path.c_str(), S_IFCHR, 0) != 0)
            return fail_errno("hiding /usr/{} (a whiteout, which this file system or this user may not make)",
                              path);
    }
    return hidden;
}

} // namespace berth::image

#include "keeping/protected_search.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/strings.hpp"
#include "policy/target.hpp"

namespace berth::keeping {

namespace {

using policy::Access;

constexpr std::size_t kMaxVisited = 400'000;
constexpr std::string_view kTemporary[] = {"/tmp", "/var/tmp"};

struct Found {
    std::string path;
    bool link;
};

/// Some file systems do not tell the type with the name.
unsigned char type_of(int dir, const dirent& entry)
{
    struct stat st{};
    if (entry.d_type != DT_UNKNOWN || ::fstatat(dir, &entry.d_name[0], &st, AT_SYMLINK_NOFOLLOW) != 0)
        return entry.d_type;
    return S_ISDIR(st.st_mode) ? DT_DIR : S_ISLNK(st.st_mode) ? DT_LNK : DT_REG;
}

/// Walks a host directory for protected names. The tree is the sandbox's to fill, so it is
/// bounded, and a place we cannot look into (an earlier sandbox may have closed it, and the next
/// one can open it again) is a refusal, not a hole.
class Search {
public:
    Search(const std::vector<std::string>& names, std::vector<Found>& found) : names_(names), found_(found) {}

    Status walk(UniqueFd dir, const std::string& inside, int depth)
    {
        if (depth > 64)
            return fail(Code::Exhausted, "{} is too deep to be searched for protected names",
                        printable(inside));
        DIR* stream = ::fdopendir(dir.get());
        if (stream == nullptr) return fail_errno("reading {}", printable(inside));
        const int fd = dir.release(); // the stream owns it now
        Status result;
        while (const dirent* entry = ::readdir(stream)) { // NOLINT(concurrency-mt-unsafe): our own stream
            const std::string name = entry->d_name;
            if (name == "." || name == "..") continue;
            if (++visited_ > kMaxVisited) {
                result = fail(Code::Exhausted,
                              "{} has more than {} entries: too many to be searched for protected names; "
                              "use a smaller workspace or a policy without them",
                              printable(inside), kMaxVisited);
                break;
            }
            const std::string path = fmt::format("{}/{}", inside, name);
            const unsigned char type = type_of(fd, *entry);
            if (std::ranges::find(names_, name) != names_.end()) {
                found_.push_back({.path = path, .link = type == DT_LNK});
                continue;
            }
            if (type != DT_DIR) continue;
            UniqueFd below = open_below(fd, &entry->d_name[0]);
            // Gone, or another file system, which the mount of the workspace does not bring along.
            if (!below && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP || errno == EXDEV)) continue;
            if (!below) {
                result = fail_errno("looking for protected names in {}", printable(path));
                break;
            }
            if (result = walk(std::move(below), path, depth + 1); !result) break;
        }
        ::closedir(stream);
        return result;
    }

private:
    const std::vector<std::string>& names_;
    std::vector<Found>& found_;
    std::size_t visited_ = 0;
};

/// As the sandbox sees it, for its paths.
UniqueFd open_in(int root, const std::string& path, std::uint64_t flags)
{
    open_how how{};
    how.flags = flags | O_CLOEXEC | O_NOFOLLOW;
    how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    return UniqueFd(static_cast<int>(::syscall(SYS_openat2, root, path.c_str(), &how, sizeof how)));
}

} // namespace

UniqueFd open_below(int parent, const char* name)
{
    open_how how{};
    how.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV;
    return UniqueFd(static_cast<int>(::syscall(SYS_openat2, parent, name, &how, sizeof how)));
}

bool has_content(int dir)
{
    UniqueFd again(::openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR* stream = again ? ::fdopendir(again.get()) : nullptr;
    if (stream == nullptr) return false;
    (void)again.release(); // the stream owns it now
    bool content = false;
    while (const dirent* entry =
               content ? nullptr : ::readdir(stream)) // NOLINT(concurrency-mt-unsafe): our own
        content = std::string_view(entry->d_name) != "." && std::string_view(entry->d_name) != "..";
    ::closedir(stream);
    return content;
}

Result<std::vector<std::string>> find_protected(UniqueFd top, const std::string& inside,
                                                const policy::BoundFiles& files)
{
    std::vector<Found> found;
    BERTH_CHECK(Search(files.protected_names, found).walk(std::move(top), inside == "/" ? "" : inside, 0));
    std::vector<std::string> out;
    for (auto& [path, link] : found) {
        if (files.decide(path.substr(0, std::max<std::size_t>(path.rfind('/'), 1))) != Access::Write)
            continue;
        if (link)
            return fail(Code::Unsupported,
                        "{} is a symbolic link and has a protected name: it cannot be kept from being "
                        "replaced; put a directory or file in its place, or use a policy that does not "
                        "protect the name",
                        printable(path));
        out.push_back(std::move(path));
    }
    return out;
}

Result<std::vector<std::string>> find_protected_in_root(int root, const RuleSite& site)
{
    std::vector<std::string> out;
    if (site.files.protected_names.empty()) return out;
    for (const auto& rule : site.files.rules) {
        const auto shown = [&](const Shown& bind) { return policy::at_or_below(rule.path, bind.target); };
        if (rule.access != Access::Write || rule.path.empty() || std::ranges::any_of(site.shown, shown) ||
            std::ranges::find(kTemporary, rule.path) != std::end(kTemporary))
            continue;
        UniqueFd top = open_in(root, rule.path, O_RDONLY | O_DIRECTORY);
        // A file, a link, or nothing at all: nothing lies below.
        if (!top && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)) continue;
        if (!top) return fail_errno("looking for protected names in {}", printable(rule.path));
        BERTH_TRY(auto found, find_protected(std::move(top), rule.path, site.files));
        for (auto& path : found) {
            const UniqueFd directory = open_in(root, path, O_RDONLY | O_DIRECTORY);
            const bool empty = directory && !has_content(directory.get());
            if (!empty && std::ranges::find(out, path) == out.end()) out.push_back(std::move(path));
        }
    }
    return out;
}

} // namespace berth::keeping

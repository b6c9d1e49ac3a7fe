// Images are strangers' work, and this is read by whoever starts a sandbox, often root: every step takes a
// single name below an open directory and follows nothing, so no link and no ".." can leave the layers.

#include "image/stack.hpp"

#include <fcntl.h>
#include <limits.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <deque>

#include "base/io.hpp"
#include "base/strings.hpp"

namespace berth::image {

namespace {

constexpr int kMostLinks = 40;
constexpr std::size_t kMostComponents = 1024;

std::string by_descriptor(int fd) { return fmt::format("/proc/self/fd/{}", fd); }

bool is_opaque(int dir)
{
    char value = 0;
    return ::getxattr(by_descriptor(dir).c_str(), opaque_attribute(), &value, 1) == 1 && value == 'y';
}

/// The directories of one name in all layers that show it, the topmost first.
using Level = std::vector<UniqueFd>;

struct Seen {
    Level dirs;      ///< of a directory
    UniqueFd object; ///< of anything else
    int parent = -1; ///< borrowed: where `object` lies
};

Result<Seen> look(const Level& level, const std::string& name)
{
    Seen seen;
    for (const UniqueFd& dir : level) {
        UniqueFd object(::openat(dir.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
        if (!object && (errno == ENOENT || errno == ENAMETOOLONG)) continue;
        struct stat st{};
        if (!object || ::fstat(object.get(), &st) != 0)
            return fail_errno("looking at '{}' in a layer", printable(name));
        if (S_ISCHR(st.st_mode) && st.st_rdev == 0) break;
        if (!S_ISDIR(st.st_mode)) {
            if (!seen.dirs.empty()) break;
            seen.object = std::move(object);
            seen.parent = dir.get();
            break;
        }
        const bool last = is_opaque(object.get());
        seen.dirs.push_back(std::move(object));
        if (last) break;
    }
    return seen;
}

Status put_in_front(std::deque<std::string>& parts, std::string_view path)
{
    const auto more = split(path, '/');
    if (parts.size() + more.size() > kMostComponents)
        return fail(Code::Invalid, "'{}' is too deep", printable(path));
    parts.insert(parts.begin(), more.begin(), more.end());
    return {};
}

class Walk {
public:
    Walk(const std::vector<UniqueFd>& roots, Stack::LastLink last) : roots_(roots), last_(last) {}

    Result<std::optional<Stack::Found>> run(const std::string& path)
    {
        BERTH_CHECK(put_in_front(parts_, path));
        while (!parts_.empty()) {
            const std::string name = std::move(parts_.front());
            parts_.pop_front();
            if (name.empty() || name == ".") continue;
            if (name == "..") {
                if (!levels_.empty()) levels_.pop_back();
                continue;
            }
            BERTH_TRY(auto seen, look(levels_.empty() ? roots_ : levels_.back().dirs, name));
            if (!seen.dirs.empty()) {
                levels_.push_back({name, std::move(seen.dirs)});
                continue;
            }
            if (!seen.object) return std::nullopt;
            struct stat st{};
            if (::fstat(seen.object.get(), &st) != 0) return fail_errno("looking at '{}'", printable(name));
            if (S_ISLNK(st.st_mode) && (!parts_.empty() || last_ == Stack::LastLink::Follow)) {
                BERTH_CHECK(follow(seen.parent, name));
                continue;
            }
            if (!parts_.empty()) return std::nullopt;
            return Stack::Found{.path = here(name), .st = st, .object = std::move(seen.object)};
        }
        const Level& level = levels_.empty() ? roots_ : levels_.back().dirs;
        Stack::Found found{.path = here({}),
                           .object = UniqueFd(::fcntl(level.front().get(), F_DUPFD_CLOEXEC, 0))};
        if (!found.object || ::fstat(found.object.get(), &found.st) != 0)
            return fail_errno("looking at '{}'", printable(path));
        return found;
    }

private:
    struct Step {
        std::string name;
        Level dirs;
    };

    Status follow(int parent, const std::string& name)
    {
        if (++links_ > kMostLinks) return fail(Code::Invalid, "'{}': too many links", printable(name));
        char target[PATH_MAX];
        const ssize_t n = ::readlinkat(parent, name.c_str(), &target[0], sizeof target);
        if (n < 0) return fail_errno("reading link '{}'", printable(name));
        const std::string_view text(&target[0], static_cast<std::size_t>(n));
        if (text.starts_with('/')) levels_.clear();
        return put_in_front(parts_, text);
    }

    [[nodiscard]] std::string here(std::string_view name) const
    {
        std::string path;
        for (const auto& step : levels_) path += (path.empty() ? "" : "/") + step.name;
        if (!name.empty() && !path.empty()) path += '/';
        return path += name;
    }

    const std::vector<UniqueFd>& roots_;
    Stack::LastLink last_;
    std::vector<Step> levels_;
    std::deque<std::string> parts_;
    int links_ = 0;
};

} // namespace

const char* opaque_attribute() noexcept
{
    return ::geteuid() == 0 ? "trusted.overlay.opaque" : "user.overlay.opaque";
}

Result<Stack> Stack::open(const std::vector<std::string>& roots)
{
    std::vector<UniqueFd> opened;
    for (const auto& root : roots) {
        BERTH_TRY(auto dir, open_dir(root));
        opened.push_back(std::move(dir));
    }
    return Stack(std::move(opened));
}

Result<std::optional<Stack::Found>> Stack::find(const std::string& path, LastLink last) const
{
    if (roots_.empty()) return std::nullopt;
    return Walk(roots_, last).run(path);
}

Result<std::string> Stack::read(const std::string& path, Bytes limit) const
{
    BERTH_TRY(const auto found, find(path));
    if (!found || !S_ISREG(found->st.st_mode)) return std::string();
    const UniqueFd file(::open(by_descriptor(found->object.get()).c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
    if (!file) return fail_errno("opening '{}' of the template", printable(path));
    return read_to_end(file.get(), limit, path);
}

} // namespace berth::image

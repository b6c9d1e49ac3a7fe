#include "sys/lay_over.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/io.hpp"
#include "base/strings.hpp"
#include "sys/remove_tree.hpp"
#include "sys/tree_source.hpp"

namespace berth::sys {

namespace {

constexpr int kDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
constexpr unsigned kMaxDepth = 400;
constexpr mode_t kModeBits = 07777;
constexpr std::size_t kMaxNames = 64u << 10;

class Laying {
public:
    explicit Laying(std::string_view marks)
        : opaque_(std::string(marks) + "opaque"), origin_(std::string(marks) + "origin"),
          redirect_(std::string(marks) + "redirect"), metacopy_(std::string(marks) + "metacopy")
    {
    }

    /// What of `over` is in `onto` afterwards, attributes too. `hides`: nothing from below may show.
    Status directory(int over, const struct stat& st, int onto, bool hides, unsigned depth)
    {
        if (depth > kMaxDepth)
            return fail(Code::Exhausted, "more than {} directories in one another cannot be merged",
                        kMaxDepth);
        BERTH_TRY(const auto names, list_names(over));
        for (const auto& name : names)
            if (auto done = entry(over, onto, name, depth); !done)
                return std::unexpected(std::move(done).error().while_doing("merging " + printable(name)));
        return take_attributes(over, st, onto, hides);
    }

    [[nodiscard]] bool is_opaque(int dir) const
    {
        char value = 0;
        return ::getxattr(link_of(dir).c_str(), opaque_.c_str(), &value, 1) == 1 && value == 'y';
    }

private:
    Status entry(int over, int onto, const std::string& name, unsigned depth)
    {
        struct stat st{};
        struct stat below{};
        if (::fstatat(over, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) return fail_errno("looking at it");
        const bool there = ::fstatat(onto, name.c_str(), &below, AT_SYMLINK_NOFOLLOW) == 0;
        if (!there && errno != ENOENT) return fail_errno("looking at what it covers");
        if (!S_ISDIR(st.st_mode)) {
            // Its contents would be in a layer that is not below it any more.
            if (S_ISREG(st.st_mode) && has(over, name, metacopy_))
                return fail(Code::Unsupported, "it is a part of a file");
            if (there) BERTH_CHECK(remove_tree(onto, name));
            if (::linkat(over, name.c_str(), onto, name.c_str(), 0) == 0) return {};
            // All whiteouts of an overlay are one file, and that has only so many names.
            if (errno == EMLINK && is_whiteout(st) && ::mknodat(onto, name.c_str(), S_IFCHR, 0) == 0)
                return {};
            return fail_errno("linking it");
        }
        if (has(over, name, redirect_)) return fail(Code::Unsupported, "it is a directory of another name");
        // Its mode may not let an ordinary user in. It is left as it is: others stand on this layer.
        const UniqueFd from(::openat(over, name.c_str(), kDirectory));
        if (!from) return fail_errno("opening it");
        // A directory shows nothing of what is no directory, nor of what that hides in its turn.
        bool hides = there && !S_ISDIR(below.st_mode);
        if (there && (hides || is_opaque(from.get()))) BERTH_CHECK(remove_tree(onto, name));
        if (::mkdirat(onto, name.c_str(), 0700) != 0 && errno != EEXIST) return fail_errno("making it");
        // Until everything is in it: its own mode may not let us. Nobody else knows of this tree.
        if (::fchmodat(onto, name.c_str(), 0700, 0) != 0) return fail_errno("opening its copy");
        const UniqueFd to(::openat(onto, name.c_str(), kDirectory));
        if (!to) return fail_errno("opening its copy");
        hides = hides || is_opaque(to.get());
        return directory(from.get(), st, to.get(), hides, depth + 1);
    }

    /// Those of the topmost layer count, and none that only the lower has; but what hid still hides.
    Status take_attributes(int over, const struct stat& st, int onto, bool hides)
    {
        const std::string to = link_of(onto);
        std::string names(kMaxNames, '\0');
        const ssize_t size = ::listxattr(to.c_str(), names.data(), names.size());
        for (const char* name = names.data(); size > 0 && name < names.data() + size;
             name += std::char_traits<char>::length(name) + 1)
            if (std::string_view(name) != "security.selinux" && ::removexattr(to.c_str(), name) != 0 &&
                errno != ENODATA)
                return fail_errno("removing the attribute {}", name);
        struct stat now{};
        if (::fstat(onto, &now) != 0) return fail_errno("looking at its copy");
        if ((now.st_uid != st.st_uid || now.st_gid != st.st_gid) && ::fchown(onto, st.st_uid, st.st_gid) != 0)
            return fail_errno("giving it away");
        BERTH_CHECK(copy_attributes(link_of(over), to, "it"));
        if (hides && ::setxattr(to.c_str(), opaque_.c_str(), "y", 1, 0) != 0)
            return fail_errno("marking it as opaque");
        // An overlay looks for whiteouts where layers meet, and where this says that they met once.
        if (!has(onto, ".", origin_) && ::setxattr(to.c_str(), origin_.c_str(), "", 0, 0) != 0)
            return fail_errno("marking it as merged");
        if (::fchmod(onto, st.st_mode & kModeBits) != 0) return fail_errno("setting its mode");
        const timespec times[2] = {st.st_atim, st.st_mtim};
        if (::futimens(onto, &times[0]) != 0) return fail_errno("setting its times");
        return {};
    }

    static bool is_whiteout(const struct stat& st) { return S_ISCHR(st.st_mode) && st.st_rdev == 0; }

    static bool has(int at, const std::string& name, const std::string& mark)
    {
        return ::lgetxattr(fmt::format("{}/{}", link_of(at), name).c_str(), mark.c_str(), nullptr, 0) >= 0;
    }

    std::string opaque_, origin_, redirect_, metacopy_;
};

} // namespace

Status lay_over(int layer, int merged, std::string_view marks)
{
    struct stat st{};
    if (::fstat(layer, &st) != 0) return fail_errno("looking at a layer");
    const UniqueFd from(::openat(layer, ".", kDirectory));
    if (!from) return fail_errno("opening a layer");
    const UniqueFd to(::openat(merged, ".", kDirectory));
    if (!to) return fail_errno("opening the merged layers");
    if (::fchmod(to.get(), 0700) != 0) return fail_errno("opening the merged layers"); // as in entry()
    Laying laying(marks);
    return laying.directory(from.get(), st, to.get(), false, 0);
}

} // namespace berth::sys

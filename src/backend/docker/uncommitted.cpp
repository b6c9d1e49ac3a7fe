#include "backend/docker/uncommitted.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include <algorithm>
#include <array>

#include "base/io.hpp"
#include "base/strings.hpp"
#include "base/unique_fd.hpp"

namespace berth::docker {

namespace {

constexpr unsigned kDeepest = 200;

struct Lost {
    std::uint64_t sockets = 0;
    std::uint64_t attributed = 0; ///< files and directories with attributes that are lost
};

/// Those of the overlay are its own business, and those of security modules the machine's.
bool is_lost(std::string_view attribute)
{
    return (attribute.starts_with("user.") && !attribute.starts_with("user.overlay.")) ||
           attribute.starts_with("system.posix_acl_");
}

bool loses_attributes(int directory, const std::string& name)
{
    std::array<char, 65536> names{}; // the kernel has no longer list
    const auto size =
        ::llistxattr(fmt::format("/proc/self/fd/{}/{}", directory, name).c_str(), names.data(), names.size());
    if (size <= 0) return false;
    return std::ranges::any_of(split(std::string_view(names.data(), static_cast<std::size_t>(size)), '\0'),
                               is_lost);
}

/// What cannot be looked at counts nothing.
void count(int directory, const std::string& name, unsigned depth, Lost& lost)
{
    struct stat st{};
    if (::fstatat(directory, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) return;
    if (S_ISSOCK(st.st_mode)) ++lost.sockets;
    if (!S_ISLNK(st.st_mode) && loses_attributes(directory, name)) ++lost.attributed;
    if (!S_ISDIR(st.st_mode) || depth > kDeepest) return;
    const UniqueFd dir(::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    const auto names = dir ? list_names(dir.get()) : Result<std::vector<std::string>>();
    if (!names) return;
    for (const auto& below : *names) count(dir.get(), below, depth + 1, lost);
}

} // namespace

std::vector<std::string> note_uncommitted(const Engine& engine, const Container& container,
                                          const std::string& inside)
{
    constexpr std::string_view other = "a snapshot of kind berth_rootfs_tar keeps those of users";
    const bool here = engine.here().value_or(false) && container.upper.starts_with('/');
    const UniqueFd upper(
        here ? ::open(container.upper.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW) : -1);
    const auto names = upper ? list_names(upper.get()) : Result<std::vector<std::string>>();
    if (!upper || !names)
        return {
            fmt::format("sockets and extended attributes, if there are any, are not part of it: {}", other)};
    Lost lost;
    for (const auto& name : *names)
        if ("/" + name != inside) count(upper.get(), name, 0, lost);
    std::vector<std::string> out;
    if (lost.sockets != 0) out.push_back(fmt::format("{} sockets are not part of it", lost.sockets));
    if (lost.attributed != 0)
        out.push_back(
            fmt::format("extended attributes of {} files are not part of it: {}", lost.attributed, other));
    return out;
}

} // namespace berth::docker

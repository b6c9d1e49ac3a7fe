#include "sys/tree_size.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/io.hpp"
#include "base/unique_fd.hpp"

namespace berth::sys {

namespace {

constexpr std::uint64_t kBlock = 512; // st_blocks, whatever the file system's own are
constexpr unsigned kDeepest = 200;

} // namespace

std::uint64_t tree_size(int directory, const std::string& name, unsigned depth)
{
    struct stat st{};
    if (::fstatat(directory, name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) return 0;
    std::uint64_t bytes = static_cast<std::uint64_t>(st.st_blocks) * kBlock;
    if (!S_ISDIR(st.st_mode) || depth > kDeepest) return bytes;
    const UniqueFd dir(::openat(directory, name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    const auto names = dir ? list_names(dir.get()) : Result<std::vector<std::string>>();
    if (!names) return bytes;
    for (const auto& below : *names) bytes += tree_size(dir.get(), below, depth + 1);
    return bytes;
}

} // namespace berth::sys

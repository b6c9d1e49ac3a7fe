#include "sys/way_down.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include "base/strings.hpp"
#include "base/unique_fd.hpp"

namespace berth::sys {

Result<std::optional<std::string>> way_down(int above, int below, const std::string& real)
{
    struct stat top{};
    struct stat st{};
    if (::fstat(above, &top) != 0) return fail_errno("looking above {}", printable(real));
    UniqueFd at(::fcntl(below, F_DUPFD_CLOEXEC, 0));
    auto cut = real.size();
    while (at && ::fstat(at.get(), &st) == 0) {
        if (st.st_ino == top.st_ino && st.st_dev == top.st_dev)
            return std::optional(cut == real.size() ? std::string{} : real.substr(cut + 1));
        if (cut == 0 || cut == std::string::npos)
            return std::optional<std::string>{}; // the root is looked at
        at = UniqueFd(::openat(at.get(), "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
        cut = real.rfind('/', cut - 1);
    }
    return fail_errno("looking above {}", printable(real));
}

} // namespace berth::sys

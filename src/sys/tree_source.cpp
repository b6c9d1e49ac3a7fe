#include "sys/tree_source.hpp"

#include <fcntl.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/strings.hpp"

namespace berth::sys {

namespace {

constexpr mode_t kModeBits = 07777;
constexpr std::size_t kMaxValue = 64u << 10; ///< XATTR_SIZE_MAX

} // namespace

std::string link_of(int fd) { return fmt::format("/proc/thread-self/fd/{}", fd); }

TreeSource::TreeSource(int at, const std::string& name, int flags, const struct stat& st)
    : fd_(::openat(at, name.c_str(), flags)), mode_(st.st_mode & kModeBits)
{
    const mode_t needed = S_ISDIR(st.st_mode) ? 0500 : 0400;
    const bool enough = ::geteuid() == 0 || (mode_ & needed) == needed || st.st_uid != ::geteuid();
    if (enough) return;
    closed_.reset(::openat(at, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (!closed_ || ::chmod(link_of(closed_.get()).c_str(), mode_ | needed) != 0) return;
    fd_.reset(::openat(at, name.c_str(), flags));
}

TreeSource::~TreeSource()
{
    if (closed_) ::chmod(link_of(closed_.get()).c_str(), mode_);
}

Status copy_attributes(const std::string& from, const std::string& to, const std::string& what)
{
    std::string names(4096, '\0');
    ssize_t size = ::listxattr(from.c_str(), names.data(), names.size());
    if (size < 0 && errno == ERANGE) {
        names.resize(kMaxValue);
        size = ::listxattr(from.c_str(), names.data(), names.size());
    }
    if (size < 0 && (errno == ENOTSUP || errno == EACCES)) return {};
    if (size < 0) return fail_errno("listing the attributes of {}", printable(what));
    std::string value(kMaxValue, '\0');
    for (const char* name = names.data(); name < names.data() + size;
         name += std::char_traits<char>::length(name) + 1) {
        // A label is given by where a file lies, and only a few may give another.
        if (std::string_view(name) == "security.selinux") continue;
        const ssize_t n = ::getxattr(from.c_str(), name, value.data(), value.size());
        if (n < 0 && errno == ENODATA) continue;
        if (n < 0) return fail_errno("reading attribute {} of {}", name, printable(what));
        if (::setxattr(to.c_str(), name, value.data(), static_cast<std::size_t>(n), 0) != 0)
            return fail_errno("copying attribute {} of {}", name, printable(what));
    }
    return {};
}

} // namespace berth::sys

#include "image/directory_template.hpp"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>

#include <memory>

#include "base/strings.hpp"
#include "base/unique_fd.hpp"
#include "image/root_check.hpp"

namespace berth::image {

namespace {

/// Empty when the path does not lead anywhere.
std::string real_path(const std::string& path)
{
    char buffer[PATH_MAX];
    const char* real = ::realpath(path.c_str(), buffer);
    return real == nullptr ? std::string() : std::string(real);
}

bool contains(const std::string& outer, const std::string& inner)
{
    return inner == outer || inner.starts_with(outer + "/");
}

} // namespace

Result<std::string> directory_template(const std::string& path, const std::vector<std::string>& own)
{
    if (path.empty() || path.front() != '/')
        return fail(Code::Invalid, "template directory '{}' is not an absolute path", printable(path));
    if (path.find('\0') != std::string::npos)
        return fail(Code::Invalid, "template directory '{}' has a NUL in its name", printable(path));
    std::string real = real_path(path);
    if (real.empty()) return fail_errno("template directory {}", printable(path));
    if (real == "/")
        return fail(Code::Invalid, "'/' cannot be a template: root inside would read whatever root may read "
                                   "(--template host shows this machine's programs safely)");
    for (const auto& mine : own) {
        const std::string theirs = real_path(mine);
        if (!theirs.empty() && (contains(real, theirs) || contains(theirs, real)))
            return fail(Code::Invalid, "template directory {} overlaps {}, where berth keeps its own files",
                        printable(real), printable(theirs));
    }

    const UniqueFd root(::open(real.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!root && errno == ENOTDIR)
        return fail(Code::Invalid, "template {} is not a directory", printable(path));
    if (!root) return fail_errno("opening template directory {}", printable(path));
    BERTH_CHECK(check_root(root.get(), "template directory " + printable(path)));
    return real;
}

} // namespace berth::image

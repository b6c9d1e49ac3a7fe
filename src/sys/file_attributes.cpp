#include "sys/file_attributes.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/json.hpp"
#include "base/strings.hpp"
#include "base/unique_fd.hpp"
#include "sys/sandbox_files_resolve.hpp"

namespace berth::sys {
namespace {

constexpr std::size_t kLargest = 65536; // the kernel's own limits of a list and of a value

/// The way to exactly the object of a descriptor, which may be one that cannot be read by.
std::string link_of(int object) { return fmt::format("/proc/thread-self/fd/{}", object); }

Result<std::vector<std::string>> names_of(const std::string& link, const std::string& prefix)
{
    std::string list(kLargest, '\0');
    const auto size = ::listxattr(link.c_str(), list.data(), list.size());
    if (size < 0 && (errno == ENOTSUP || errno == EOPNOTSUPP)) return std::vector<std::string>{};
    if (size < 0) return fail_errno("listing attributes");
    list.resize(static_cast<std::size_t>(size));
    std::vector<std::string> out;
    for (auto& name : split(list, '\0'))
        if (name.size() > prefix.size() && name.starts_with(prefix)) out.push_back(std::move(name));
    return out;
}

AttributeSet attributes_of(int object, const std::string& prefix)
{
    AttributeSet out;
    const auto link = link_of(object);
    const auto names = names_of(link, prefix);
    if (!names) return out;
    for (const auto& name : *names) {
        std::string value(kLargest, '\0');
        const auto size = ::getxattr(link.c_str(), name.c_str(), value.data(), value.size());
        if (size < 0) continue;
        value.resize(static_cast<std::size_t>(size));
        if (!json::not_utf8(json::Value(value)) && !json::not_utf8(json::Value(name)))
            out[name.substr(prefix.size())] = std::move(value);
    }
    return out;
}

} // namespace

Result<std::map<std::string, AttributeSet>> read_attributes(int root, const std::string& directory,
                                                            const std::vector<std::string>& names,
                                                            const std::string& prefix)
{
    std::map<std::string, AttributeSet> out;
    BERTH_TRY(const auto place, resolve_in(root, directory, O_DIRECTORY));
    for (const auto& name : names) {
        if (name.empty() || name.find('/') != std::string::npos) continue;
        const UniqueFd object(::openat(place.get(), name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
        struct stat st{};
        if (!object || ::fstat(object.get(), &st) != 0) continue;
        if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) continue; // others cannot have them
        if (auto found = attributes_of(object.get(), prefix); !found.empty()) out[name] = std::move(found);
    }
    return out;
}

Status write_attributes(int root, const std::string& path, const std::string& prefix,
                        const AttributeSet& attributes)
{
    BERTH_TRY(const auto object, resolve_in(root, path));
    struct stat st{};
    if (::fstat(object.get(), &st) != 0) return fail_errno("looking at {}", printable(path));
    if (!S_ISREG(st.st_mode)) return fail(Code::Invalid, "{} is not a regular file", printable(path));
    const auto link = link_of(object.get());
    BERTH_TRY(const auto old, names_of(link, prefix));
    for (const auto& name : old)
        if (!attributes.contains(name.substr(prefix.size())) &&
            ::removexattr(link.c_str(), name.c_str()) != 0 && errno != ENODATA)
            return fail_errno("removing an attribute of {}", printable(path));
    for (const auto& [name, value] : attributes) {
        if (::setxattr(link.c_str(), (prefix + name).c_str(), value.data(), value.size(), 0) == 0) continue;
        if (errno == ENOTSUP || errno == EOPNOTSUPP)
            return fail(Code::Unsupported, "{} lies on a file system without attributes", printable(path));
        return fail_errno("setting an attribute of {}", printable(path));
    }
    return {};
}

} // namespace berth::sys

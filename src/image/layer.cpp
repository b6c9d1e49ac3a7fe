#include "image/layer.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/io.hpp"

namespace berth::image {

Status Layer::directory(const std::string& path, mode_t wanted) const
{
    if (::mkdirat(dir_, path.c_str(), 0700) != 0) return fail_errno("creating directory {}", path);
    return mode(path, wanted);
}

Status Layer::file(const std::string& path, std::string_view text, mode_t wanted) const
{
    if (::unlinkat(dir_, path.c_str(), 0) != 0 && errno != ENOENT) return fail_errno("removing {}", path);
    UniqueFd fd(::openat(dir_, path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!fd) return fail_errno("creating {}", path);
    if (auto written = write_all(fd.get(), text); !written)
        return std::unexpected(std::move(written).error().while_doing("writing " + path));
    if (::fchmod(fd.get(), wanted) != 0) return fail_errno("setting the mode of {}", path);
    return {};
}

Status Layer::link(const std::string& path, const std::string& target) const
{
    if (::symlinkat(target.c_str(), dir_, path.c_str()) != 0)
        return fail_errno("making link {} to {}", path, target);
    return {};
}

Status Layer::mode(const std::string& path, mode_t wanted) const
{
    if (::fchmodat(dir_, path.c_str(), wanted, 0) != 0) return fail_errno("setting the mode of {}", path);
    return {};
}

Status Layer::owner(const std::string& path, uid_t uid, gid_t gid) const
{
    if (::fchownat(dir_, path.c_str(), uid, gid, AT_SYMLINK_NOFOLLOW) != 0)
        return fail_errno("giving {} to {}:{}", path, uid, gid);
    return {};
}

} // namespace berth::image

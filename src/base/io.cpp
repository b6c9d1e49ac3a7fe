#include "base/io.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>

#include "base/scope_exit.hpp"

namespace berth {

Status write_all(int fd, std::string_view bytes)
{
    while (!bytes.empty()) {
        const ssize_t n = ::write(fd, bytes.data(), bytes.size());
        if (n < 0) {
            if (errno == EINTR) continue;
            return fail_errno("writing {} bytes", bytes.size());
        }
        bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return {};
}

Result<std::string> read_to_end(int fd, Bytes limit, std::string_view what)
{
    std::string out;
    char buffer[16384];
    for (;;) {
        const ssize_t n = ::read(fd, buffer, sizeof buffer);
        if (n < 0) {
            if (errno == EINTR) continue;
            return fail_errno("reading {}", what);
        }
        if (n == 0) return out;
        if (out.size() + static_cast<std::size_t>(n) > limit.count)
            return fail(Code::Invalid, "{} is larger than {} bytes", what, limit.count);
        out.append(buffer, static_cast<std::size_t>(n));
    }
}

Result<std::string> read_file(const std::string& path, Bytes limit)
{
    return read_file_at(AT_FDCWD, path, limit);
}

Result<std::string> read_file_at(int dir, const std::string& path, Bytes limit)
{
    UniqueFd fd(::openat(dir, path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
    if (!fd) return fail_errno("opening {}", path);
    return read_to_end(fd.get(), limit, path);
}

Status write_control(const std::string& path, std::string_view value)
{
    return write_control_at(AT_FDCWD, path, value);
}

Status write_control_at(int dir, const std::string& path, std::string_view value)
{
    UniqueFd fd(::openat(dir, path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!fd) return fail_errno("opening {}", path);
    if (::write(fd.get(), value.data(), value.size()) != static_cast<ssize_t>(value.size()))
        return fail_errno("writing '{}' to {}", value, path);
    return {};
}

Status replace_file_at(int dir, const std::string& name, std::string_view bytes, unsigned mode)
{
    const std::string temporary = name + ".new";
    UniqueFd fd(
        ::openat(dir, temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, mode));
    if (!fd) return fail_errno("creating {}", temporary);
    ScopeExit discard([&] { ::unlinkat(dir, temporary.c_str(), 0); });
    if (auto written = write_all(fd.get(), bytes); !written)
        return std::unexpected(std::move(written).error().while_doing("writing " + name));
    if (::fdatasync(fd.get()) != 0) return fail_errno("syncing {}", temporary);
    if (::renameat(dir, temporary.c_str(), dir, name.c_str()) != 0)
        return fail_errno("renaming {}", temporary);
    discard.dismiss();
    return {};
}

Result<UniqueFd> open_dir(const std::string& path)
{
    UniqueFd fd(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!fd) return fail_errno("opening directory {}", path);
    return fd;
}

Status make_dirs(const std::string& path, unsigned mode)
{
    for (std::size_t at = 1; at != std::string::npos;) {
        at = path.find('/', at);
        const std::string part = path.substr(0, at);
        if (::mkdir(part.c_str(), mode) != 0 && errno != EEXIST)
            return fail_errno("creating directory {}", part);
        if (at != std::string::npos) ++at;
    }
    return {};
}

Result<std::vector<std::string>> list_names(int dir)
{
    // A descriptor of its own: the position of a directory is shared by copies.
    UniqueFd own(::openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    DIR* const stream = own ? ::fdopendir(own.get()) : nullptr;
    if (stream == nullptr) return fail_errno("reading a directory");
    [[maybe_unused]] const int taken = own.release();
    const ScopeExit close([&] { ::closedir(stream); });
    std::vector<std::string> names;
    for (errno = 0; const dirent* entry = ::readdir(stream); errno = 0) { // NOLINT(concurrency-mt-unsafe)
        const std::string_view name = &entry->d_name[0];
        if (name != "." && name != "..") names.emplace_back(name);
    }
    if (errno != 0) return fail_errno("reading a directory");
    std::ranges::sort(names);
    return names;
}

} // namespace berth

#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include <gtest/gtest.h>

#include "base/io.hpp"
#include "image/unpack.hpp"
#include "unit/image/tar_builder.hpp"
#include "unit/sys/temp_dir.hpp"

namespace berth::image {

/// A directory to unpack into, with a neighbour that no archive may touch.
struct Box {
    Box()
    {
        dir.make_dir("dest");
        dir.write("canary", "untouched");
        dest = UniqueFd(::open((dir / "dest").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    }
    Result<UnpackReport> unpack(const std::string& tar, UnpackOptions options = {})
    {
        const UniqueFd file = as_file(tar);
        return unpack_tar(file.get(), dest.get(), options);
    }
    [[nodiscard]] struct stat stat(const std::string& name) const
    {
        struct stat st{};
        if (::fstatat(dest.get(), name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0)
            ADD_FAILURE() << "no " << name;
        return st;
    }
    [[nodiscard]] std::string read(const std::string& name) const
    {
        return read_file_at(dest.get(), name).value_or("(cannot be read)");
    }
    [[nodiscard]] std::string link(const std::string& name) const
    {
        char buffer[4096];
        const ssize_t n = ::readlinkat(dest.get(), name.c_str(), buffer, sizeof buffer);
        return n < 0 ? "(no link)" : std::string(buffer, static_cast<std::size_t>(n));
    }
    /// Nothing but dest and the canary, and the canary as it was, with one name.
    [[nodiscard]] bool neighbours_untouched() const
    {
        struct stat st{};
        struct stat above{};
        ::lstat((dir / "canary").c_str(), &st);
        ::lstat(dir.path().c_str(), &above);
        return read_file(dir / "canary").value_or("") == "untouched" && st.st_nlink == 1 &&
               (st.st_mode & 07777) == 0644 && above.st_nlink == 3 && !dir.has("x");
    }

    sys::TempDir dir;
    UniqueFd dest;
};

} // namespace berth::image

#pragma once

#include <sys/stat.h>

#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace berth::sys {

/// What leads to exactly the object of a descriptor, symlinks included.
[[nodiscard]] std::string link_of(int fd);

/// Something of a tree that is copied, opened. What we own and may not read gives us the right for as long as
/// this lives: entering a directory is asked with each step, not once.
class TreeSource {
public:
    TreeSource() = default;
    TreeSource(int at, const std::string& name, int flags, const struct stat& st);
    TreeSource(TreeSource&&) noexcept = default;
    TreeSource& operator=(TreeSource&&) = delete;
    ~TreeSource();
    [[nodiscard]] int get() const noexcept { return fd_.get(); }
    [[nodiscard]] explicit operator bool() const noexcept { return static_cast<bool>(fd_); }

private:
    UniqueFd fd_;
    UniqueFd closed_; ///< to give the right back
    mode_t mode_ = 0;
};

/// Extended attributes of one object to another, by names as link_of() has them; `what` is for the error.
[[nodiscard]] Status copy_attributes(const std::string& from, const std::string& to, const std::string& what);

} // namespace berth::sys

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace berth::sys {

/// What happened in a watched directory.
struct DirectoryEvent {
    enum class Kind { Created, Written, Removed, MovedFrom, MovedTo, Attributes, Gone, Overflow };
    Kind kind = Kind::Written;
    int watch = -1; ///< of the directory; -1 for Overflow
    bool directory = false;
    std::uint32_t move = 0; ///< the same number in both halves of a move; else 0
    std::string name;       ///< in the directory; empty for itself (MovedFrom, Gone) and Overflow
};

/// One inotify instance. The system allows 128 of them for a user, so a process has one for everything.
class Inotify {
public:
    [[nodiscard]] static Result<Inotify> open();

    [[nodiscard]] int descriptor() const noexcept { return fd_.get(); }

    /// Watches the directory behind a descriptor (O_PATH will do), which the calling thread may read. The
    /// same directory again gives the same number. Exhausted names the setting to raise.
    [[nodiscard]] Result<int> add(int directory) const;
    /// A number that is gone already is none of our business.
    void remove(int watch) const noexcept;

    /// What there is now; does not wait.
    [[nodiscard]] Result<std::vector<DirectoryEvent>> read() const;

private:
    explicit Inotify(UniqueFd fd) noexcept : fd_(std::move(fd)) {}
    UniqueFd fd_;
};

} // namespace berth::sys

#pragma once

#include "core/backend.hpp"

namespace berth {

/// A backend that can move a file over another, as rename(2) does: the old one is there until the new one is
/// in its place, whatever fails. An empty directory makes way for a directory.
class MovesOver {
public:
    virtual ~MovesOver() = default;

    /// As Backend::move_file(), which refuses a name that is taken.
    virtual Task<Status> move_over(SandboxHandle sandbox, FilePath from, std::string to) = 0;
};

} // namespace berth

#pragma once

#include "core/backend.hpp"

namespace berth {

enum class WatchDepth {
    One, ///< what is in the directory
    All, ///< what is below it, too
};

/// A backend that can watch a directory without all that is below it, which may be a hundred thousand others.
/// Who watches by Backend::watch() is told of everything.
class WatchesOne {
public:
    virtual ~WatchesOne() = default;

    /// As Backend::watch(), and ended by unwatch() too.
    virtual Task<Result<std::vector<FileChange>>> watch_one(SandboxHandle sandbox, std::string watch,
                                                            FilePath directory, SteadyTime until) = 0;
};

} // namespace berth

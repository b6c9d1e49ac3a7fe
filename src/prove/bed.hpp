#pragma once

#include <string>
#include <vector>

#include "core/backend.hpp"

namespace berth::prove {

/// Files that a proof puts into a sandbox from outside, where nobody inside may make or remove them, and the
/// directories it makes for them. Nothing that was there is touched.
class Bed {
public:
    Bed(Backend& backend, SandboxHandle sandbox) : backend_(backend), sandbox_(std::move(sandbox)) {}

    /// With the rights of the sandbox's user. What a proof that was killed left beside it goes.
    Task<Status> plant(std::string path, std::string word);
    /// Room for something at the path.
    Task<Status> make_above(std::string path);
    /// What was planted, and directories that were made for it if they are still empty.
    Task<void> clear();

private:
    Task<void> weed(std::string directory);

    Backend& backend_;
    SandboxHandle sandbox_;
    std::vector<std::string> files_;
    std::vector<std::string> directories_; ///< outermost first
};

} // namespace berth::prove

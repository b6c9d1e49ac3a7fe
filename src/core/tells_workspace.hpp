#pragma once

#include "core/backend.hpp"

namespace berth {

/// What a backend is besides that knows where the work of its sandboxes lies; found by dynamic_cast. Of
/// others the spec's own word is all there is.
class TellsWorkspace {
public:
    virtual ~TellsWorkspace() = default;
    /// The working directory that was asked for, else the image's, else the user's home; never what is
    /// mounted, which is shown to a sandbox and not held by it. Of a running instance.
    virtual Task<Result<std::string>> workspace(SandboxHandle sandbox) = 0;
};

} // namespace berth

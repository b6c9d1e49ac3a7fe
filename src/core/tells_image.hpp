#pragma once

#include "core/backend.hpp"
#include "core/image_defaults.hpp"

namespace berth {

/// What a backend is besides that starts from root tars: it knows what the image of a sandbox asks for, and
/// holds what is kept beside a tar; found by dynamic_cast.
class TellsImage {
public:
    virtual ~TellsImage() = default;
    /// Of an instance in any state.
    virtual Task<Result<ImageDefaults>> image_defaults(SandboxHandle sandbox) = 0;
};

} // namespace berth

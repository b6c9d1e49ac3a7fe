#pragma once

#include "core/backend.hpp"

namespace berth {

/// An instance that somebody else made, as its backend finds it now. Nobody asked us for any of it, and we
/// hold nothing of it.
struct Borrowed {
    std::string type;      ///< "docker_container"
    std::string container; ///< its id
    std::string image;
    std::string network; ///< its mode, in the backend's own words
    std::vector<Mount> mounts;
    policy::Limits limits;
};

/// What a backend is besides that lends such instances; found by dynamic_cast.
class TellsBorrowed {
public:
    virtual ~TellsBorrowed() = default;
    virtual Task<Result<Borrowed>> borrowed(SandboxHandle sandbox) = 0;
};

} // namespace berth

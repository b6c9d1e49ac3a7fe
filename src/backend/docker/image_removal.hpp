#pragma once

#include "backend/docker/life.hpp"

/// An engine that is killed while it removes an image has taken its name away and left the rest, which
/// nothing tells from what somebody else made of it: so it is noted which one goes.
namespace berth::docker {

struct KnownImage {
    std::string name; ///< of ours
    std::string id;   ///< what has it; empty: that is not known, and nothing is noted
};

/// NotFound: there is none. Conflict: something is made of it.
[[nodiscard]] Status remove_image(const Where& where, const KnownImage& image, bool force = false);

/// What is left of those.
[[nodiscard]] Status finish_removals(const Where& where);

} // namespace berth::docker

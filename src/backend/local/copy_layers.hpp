#pragma once

#include "backend/local/layers.hpp"
#include "backend/local/plan.hpp"

namespace berth::local {

// What a kept sandbox writes in a private copy of a host directory lies in a writable layer beside those of
// its root and /usr, and is stopped, frozen, merged and forked with them.

/// The name of that layer: by what is copied and where to, so that no other mount is ever shown over it.
[[nodiscard]] std::string copy_part(const Bind& bind);
[[nodiscard]] inline bool is_copy_part(std::string_view part) { return part.starts_with('c'); }

/// Makes those that are not there: of a new sandbox, after a freeze, and of one that an older berth made.
[[nodiscard]] Status make_copy_layers(int directory, const Plan& plan);

/// The frozen layers of the stack that hold a part of it, topmost first.
[[nodiscard]] Stack copy_stack(const Plan& plan, const std::string& part);

/// How every overlay of the plan is mounted, behind its directories.
[[nodiscard]] std::string overlay_flags(const Plan& plan);

} // namespace berth::local

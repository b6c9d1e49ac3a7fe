#pragma once

#include "policy/bind.hpp"
#include "sys/seccomp.hpp"
#include "sys/step_list.hpp"

namespace berth::keeping {

// Walls around one process, put up by itself: each adds its steps.

void add_limits(sys::StepList& list, const policy::Limits& limits);
/// Comes late: opening something is not possible any more where there are few.
void add_open_files(sys::StepList& list, const policy::Limits& limits);

enum class Domain {
    ForFiles, ///< only where there are file rules
    Scoped,   ///< without them too, so that processes outside cannot be reached
    Always,   ///< and even where the kernel cannot scope: siblings cannot be looked into
};
void add_landlock(sys::StepList& list, const policy::BoundFiles& files, int abi, Domain domain);
void add_filter(sys::StepList& list, const sys::FilterOptions& options);

} // namespace berth::keeping

#pragma once

#include "keeping/rule_site.hpp"
#include "sys/step_list.hpp"

namespace berth::keeping {

/// Names the steps that follow, and is where a test may kill the launcher.
void stage(sys::StepList& list, sys::Slot parent, std::string_view label);

/// Mounts that hold the file rules; the working root is "/" by then. `parent` is a pidfd of the launcher.
[[nodiscard]] Status add_file_rules(sys::StepList& list, const RuleSite& site, sys::Slot parent);

} // namespace berth::keeping

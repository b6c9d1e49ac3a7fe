#pragma once

#include <string>
#include <vector>

#include "backend/local/state_dir.hpp"

namespace berth::local {

/// The word by which a keeper tells every process of the machine whose it is: the state directory, and the
/// name of its instance.
[[nodiscard]] Result<std::string> keeper_mark(const StateDir& state, const std::string& native);

/// Ends the keepers of this state directory whose instances' directories somebody has removed: nobody can
/// reach them any more. Answers with "keeper of sbx_…".
[[nodiscard]] Result<std::vector<std::string>> end_strays(const StateDir& state, bool dry_run);

} // namespace berth::local

#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "keeping/rule_site.hpp"

namespace berth::keeping {

/// Paths inside of what has a protected name and lies where the rules let write, below `top`, which is
/// `inside` in the sandbox. Other file systems are not entered. A link of such a name is refused: no mount
/// holds a link in its place.
[[nodiscard]] Result<std::vector<std::string>> find_protected(UniqueFd top, const std::string& inside,
                                                              const policy::BoundFiles& files);

/// The same in a sandbox's own root, below each writable place that is not shown from outside. Temporary
/// directories are left out, and empty directories: they may be gone when they are to be mounted over, and
/// whoever could fill one could as well make another elsewhere.
[[nodiscard]] Result<std::vector<std::string>> find_protected_in_root(int root, const RuleSite& site);

/// Opens a directory below `parent` following nothing and crossing no mount.
[[nodiscard]] UniqueFd open_below(int parent, const char* name);

/// Whether a directory holds anything. False also for one that is being removed, which cannot be read any
/// more.
[[nodiscard]] bool has_content(int dir);

} // namespace berth::keeping

#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.hpp"

/// Extended attributes of files inside a root that is not to be trusted. Called with the rights of whoever
/// asks: see SandboxFiles::run.
namespace berth::sys {

using AttributeSet = std::map<std::string, std::string>;

/// Of each of `names` in a directory that has some: those that begin with `prefix`, without it. What is gone,
/// may not be read or is not UTF-8 is left out.
[[nodiscard]] Result<std::map<std::string, AttributeSet>>
read_attributes(int root, const std::string& directory, const std::vector<std::string>& names,
                const std::string& prefix);

/// All of a regular file's that begin with `prefix` are replaced. Unsupported: the file system has none.
[[nodiscard]] Status write_attributes(int root, const std::string& path, const std::string& prefix,
                                      const AttributeSet& attributes);

} // namespace berth::sys

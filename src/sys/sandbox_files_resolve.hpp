#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

/// How a path of a sandbox becomes a descriptor. Nothing here opens an object for reading or
/// writing: an O_PATH descriptor has no effect on pipes and devices and cannot block.
namespace berth::sys {

/// The object behind `path` inside `root`, as O_PATH with `flags` (O_NOFOLLOW, O_DIRECTORY) added.
/// Refuses kernel interfaces (proc, sysfs, devtmpfs, devpts and their like).
[[nodiscard]] Result<UniqueFd> resolve_in(int root, const std::string& path, int flags = 0);

/// Where an entry is or will be: its directory, resolved, and the last component.
struct Place {
    UniqueFd directory;
    std::string name;
};
[[nodiscard]] Result<Place> resolve_place(int root, const std::string& path);

/// Opens what an O_PATH descriptor refers to, if it is a regular file.
[[nodiscard]] Result<UniqueFd> open_regular(int object, int flags, const std::string& path);

/// The last component of a path; "/" for the root itself.
[[nodiscard]] std::string last_component(const std::string& path);

} // namespace berth::sys

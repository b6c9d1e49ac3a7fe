#pragma once

#include <string>

#include "core/record.hpp"
#include "core/snapshot.hpp"

/// The directories that hold what snapshots consist of: `<id>.new` while one is taken, `<id>` once it is
/// complete and on disk. A record without one is an error.
namespace berth::payload {

/// An empty one, made anew.
[[nodiscard]] Result<std::string> begin(const std::string& root, const std::string& id);
/// Brings it to the disk under its name.
[[nodiscard]] Status complete(const std::string& root, const std::string& id);
/// Already gone is success.
[[nodiscard]] Status remove(const std::string& root, const std::string& id);
/// There, and its file as long and with the hash that the record says: read all of it.
[[nodiscard]] Status check(const std::string& root, const SnapshotRecord& snapshot);
/// Names of all directories, complete or not.
[[nodiscard]] Result<std::vector<std::string>> list(const std::string& root);
/// Of a name that list() gave: whether it was finished, and when it was last changed.
[[nodiscard]] bool complete_name(const std::string& name);
[[nodiscard]] Result<WallTime> changed(const std::string& root, const std::string& name);

} // namespace berth::payload

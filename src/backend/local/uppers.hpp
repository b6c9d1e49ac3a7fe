#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/local/layers.hpp"
#include "base/result.hpp"
#include "core/sandbox_spec.hpp"

namespace berth::local {

// The writable layers of an instance: `fs/u1` of its root, `fs/u2` of its /usr, `fs/c…` of each copy of a
// host directory (copy_layers.hpp), and beside each the work directory of its overlay, whose name begins with
// `w`. On disk they hold the sandbox's own ids.

/// Empty ones on top of `stack`, for a sandbox that goes on. All there at once, under the name `fs`, or not
/// at all.
[[nodiscard]] Status make_uppers(const StateDir& state, int directory, const Stack& stack);
/// For a new one: with a machine id and a host name of its own.
[[nodiscard]] Status make_uppers(const StateDir& state, int directory, const Stack& stack,
                                 const SandboxSpec& spec);

/// One more of them, with its work directory, where it is not there yet; `owner` where the stack has none of
/// it.
[[nodiscard]] Status make_upper(const StateDir& state, int directory, const Stack& stack,
                                const std::string& part, std::optional<std::uint32_t> owner);

/// The names of those in `files`, or in a frozen layer, without the work directories.
[[nodiscard]] Result<std::vector<std::string>> list_parts(int files);

/// All that was written to the file system the directory lies on is on the disk.
[[nodiscard]] Status sync_file_system(int directory);

/// Empties the work directories, and with them the marks by which the kernel refuses an upper that was
/// mounted `volatile` and not synced. Only while nothing has it mounted, and after a sync.
[[nodiscard]] Status remove_marks(int directory);

/// Names the writable layers as a frozen one; the work directories are no part of it. The record must
/// tell of it before: a killed caller leaves either of the two names, never both and never none.
[[nodiscard]] Status freeze_uppers(const StateDir& state, int directory, const std::string& layer);
[[nodiscard]] bool has_layer(const StateDir& state, const std::string& layer);

} // namespace berth::local

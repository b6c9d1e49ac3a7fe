#pragma once

#include <string>

#include "base/result.hpp"

namespace berth::local {

/// The writable layers of an instance: `fs/u1` of its root, `fs/u2` of its /usr, and the work directories
/// of the two overlays beside them. On disk they hold the sandbox's own ids.

/// Empty ones, with a machine id of their own.
[[nodiscard]] Status make_uppers(int directory);

/// All that was written to the file system the directory lies on is on the disk.
[[nodiscard]] Status sync_file_system(int directory);

/// Empties the work directories, and with them the marks by which the kernel refuses an upper that was
/// mounted `volatile` and not synced. Only while nothing has it mounted, and after a sync.
[[nodiscard]] Status remove_marks(int directory);

} // namespace berth::local

#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace berth::sys {

struct TreeCopied {
    std::uint64_t files = 0; ///< everything that is not a directory, a hard link counted once
    std::uint64_t bytes = 0; ///< of contents, holes left out
};

/// Copies the directory `from` (borrowed) as `name` below `to`: owners, modes, times, extended attributes,
/// links hard and soft, devices, holes. Contents are shared with the source where the file system can.
/// Several threads.
///
/// Nobody changes the source meanwhile; what it holds may have been made by somebody hostile all the same:
/// each step starts at a descriptor, no symlink is followed, no device or pipe is opened. What we own and may
/// not read is opened up for the moment of reading. A tree deeper than 400 directories is refused. A
/// failure leaves a part of the copy behind.
[[nodiscard]] Result<TreeCopied> copy_tree(int from, int to, const std::string& name);

} // namespace berth::sys

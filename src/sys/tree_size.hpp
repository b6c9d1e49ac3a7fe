#pragma once

#include <cstdint>
#include <string>

namespace berth::sys {

/// What the disk gets back when `name` below `directory` is removed: no links are followed, and those within
/// the tree are counted as often as they are named. What cannot be looked at counts nothing.
[[nodiscard]] std::uint64_t tree_size(int directory, const std::string& name, unsigned depth = 0);

} // namespace berth::sys

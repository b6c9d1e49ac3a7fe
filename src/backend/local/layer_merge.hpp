#pragma once

#include "backend/local/instance.hpp"

namespace berth::local {

// Each snapshot of a sandbox in which nothing runs puts a layer on its stack. With many of them every lookup
// that finds nothing takes longer, and at some depth the kernel mounts no more. One layer made of all of
// them, by hard links, shows the same; those it was made of go with the last snapshot that names them.

/// A stopped sandbox with so many is merged by whoever collects.
constexpr std::size_t kMergeFrom = 32;
/// Nobody has collected for a long time: the next snapshot does it itself.
constexpr std::size_t kMergeNow = 128;

/// One layer in the place of the instance's stack, on the disk. The record is the caller's to write, and its
/// directory and the layers (shared) are locked by him.
[[nodiscard]] Status merge_stack(const StateDir& state, Instance& instance);

/// Merges what has grown deep and is at rest; what cannot be merged is logged, and stays as it is.
void merge_resting(const StateDir& state);

} // namespace berth::local

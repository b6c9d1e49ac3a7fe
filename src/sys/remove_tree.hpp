#pragma once

#include <string>

#include "base/result.hpp"

namespace berth::sys {

/// Removes `name` (a single component) below `directory`, whatever it is, with all it holds.
///
/// Never follows a symlink, never enters another mount, and never leaves the tree, even when
/// somebody renames inside it meanwhile: every step starts at a descriptor of a directory that was
/// reached downwards. Directories of ours that we may not enter (the overlay's mode-000 work
/// directory) are opened up first. Takes any depth with a fixed number of descriptors. What cannot
/// be removed is passed over and the first such object named in the error; the rest is gone.
/// A name that does not exist is success.
[[nodiscard]] Status remove_tree(int directory, const std::string& name);

/// Renames `name` to a fresh name in `trash`, on the same file system: constant time, whatever it
/// holds. A name that does not exist is success.
[[nodiscard]] Status move_to_trash(int directory, const std::string& name, int trash);

/// Removes all that lies in the trash; several processes may do so at once.
[[nodiscard]] Status empty_trash(int trash);

} // namespace berth::sys

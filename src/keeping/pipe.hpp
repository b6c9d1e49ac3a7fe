#pragma once

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace berth::keeping {

/// A pipe for a stream of a command: large where the kernel grants it, and open to whoever has it
/// as a descriptor, so that `> /dev/stderr` works for every user inside.
struct PipePair {
    UniqueFd read;
    UniqueFd write;
};

[[nodiscard]] Result<PipePair> make_pipe();

} // namespace berth::keeping

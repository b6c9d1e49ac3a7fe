#pragma once

#include "base/result.hpp"
#include "image/cache.hpp"

namespace berth::image {

/// Fills `layer` with the root of template `host`: empty directories, the links of the host's merged
/// `/usr`, the harmless part of its `/etc`, accounts of the sandbox's own, and, where the maker may,
/// the six devices everybody expects. True when the devices are there.
///
/// Unsupported when the host's `/bin` or `/lib` are directories of their own.
[[nodiscard]] Result<bool> make_skeleton(int layer, int host_root, Ids ids, const Progress& progress);

} // namespace berth::image

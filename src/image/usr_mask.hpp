#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"

namespace berth::image {

/// Fills `layer` with whiteouts for everything below the host's `/usr` that others may not read,
/// and answers with the paths hidden, relative to `/usr`.
///
/// Root inside a sandbox sees the host's `/usr` through an idmapped mount, that is, as if host root
/// had opened it: without this layer a mode of 0640 would mean nothing.
[[nodiscard]] Result<std::vector<std::string>> make_usr_mask(int layer, int host_root);

} // namespace berth::image

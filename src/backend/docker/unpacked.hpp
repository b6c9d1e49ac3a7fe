#pragma once

#include <string>

#include "core/archive.hpp"

namespace berth::docker {

/// What a file compressed by zstd holds, piece by piece: engines before 23.0 do not read it themselves.
[[nodiscard]] Result<ByteSource> unpacked(const std::string& path);

} // namespace berth::docker

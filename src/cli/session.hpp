#pragma once

#include <memory>

#include "berth/berth.hpp"
#include "cli/app.hpp"

namespace berth::cli {

/// The library, opened at the state directory the options name.
[[nodiscard]] Result<std::unique_ptr<Berth>> open_berth(const Common& common);

} // namespace berth::cli

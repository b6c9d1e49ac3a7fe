#pragma once

#include <string_view>

#include "base/json.hpp"

namespace berth::policy {

/// A TOML document as the JSON value of the same shape, so that one reader checks both syntaxes.
/// Refuses what JSON has no word for (dates), and multi-line strings, which no policy needs.
[[nodiscard]] Result<json::Value> toml_to_json(std::string_view text);

} // namespace berth::policy

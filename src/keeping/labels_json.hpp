#pragma once

#include "base/json.hpp"
#include "base/json_reader.hpp"
#include "core/backend.hpp"

namespace berth::keeping {

/// The labels of an instance as its record keeps them.
[[nodiscard]] json::Object to_json(const InstanceLabels& labels);
[[nodiscard]] Result<InstanceLabels> read_labels(const json::Reader& at);

} // namespace berth::keeping

#pragma once

#include "base/json_reader.hpp"
#include "core/sandbox_spec.hpp"

namespace berth {

/// The document that reads back to an equal spec: what a record keeps.
[[nodiscard]] json::Object to_json(const SandboxSpec& spec);

/// Strict, as everything that was stored by somebody else's version must be read: an unknown field is
/// an error that names the place.
[[nodiscard]] Result<SandboxSpec> read_spec(const json::Reader& at);

} // namespace berth

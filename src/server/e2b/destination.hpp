#pragma once

#include <optional>
#include <string>

#include "server/e2b/envd.hpp"

namespace berth::e2b {

/// Where a request to a sandbox is to go: by its two headers, or by its host "PORT-ID.domain". Nothing: it
/// is for the server itself. Invalid: it tries to say where, and does not.
[[nodiscard]] Result<std::optional<Destination>> destination_of(const http::RequestHead& head,
                                                                const std::string& domain);

} // namespace berth::e2b

#pragma once

#include "server/http/head.hpp"

namespace berth::http {

/// The answer to a browser that asks before it sends (CORS): every header that it names is allowed, by name,
/// because "*" does not stand for Authorization. Whose pages may ask is the caller's business.
[[nodiscard]] Response preflight(const RequestHead& head);

} // namespace berth::http

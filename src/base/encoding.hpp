#pragma once

#include <string>
#include <string_view>

namespace berth {

/// RFC 4648, with padding.
[[nodiscard]] std::string base64_encode(std::string_view bytes);

} // namespace berth

#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace berth {

/// RFC 4648, with padding.
[[nodiscard]] std::string base64_encode(std::string_view bytes);
void base64_append(std::string& out, std::string_view bytes);
/// Either alphabet, with or without padding; nothing for anything else.
[[nodiscard]] std::optional<std::string> base64_decode(std::string_view text);

/// "%41" to "A"; nothing when a percent sign is not followed by two hexadecimal digits.
[[nodiscard]] std::optional<std::string> percent_decode(std::string_view text);
/// The same of a form: "+" is a space.
[[nodiscard]] std::optional<std::string> form_decode(std::string_view text);
/// Everything but letters, digits and "-._~".
[[nodiscard]] std::string percent_encode(std::string_view text);

/// Two small digits for each byte.
[[nodiscard]] std::string hex_encode(std::string_view bytes);
/// The bytes of hexadecimal digits, of which there must be an even number.
[[nodiscard]] std::optional<std::string> hex_decode(std::string_view digits);

/// Equal, in a time that tells nothing about where they differ.
[[nodiscard]] bool equal_secret(std::string_view one, std::string_view other) noexcept;

} // namespace berth

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/json_reader.hpp"

/// Fields of a protobuf message in its JSON form: absent and null are the default, numbers may be texts,
/// bytes are base64. Unknown fields are nobody's business.
namespace berth::e2b::fields {

/// Under its lowerCamelCase name, or else its original snake_case one.
[[nodiscard]] Result<std::optional<json::Reader>> find(const json::Reader& from, std::string_view name);

[[nodiscard]] Result<std::string> text(const json::Reader& from, std::string_view name);
[[nodiscard]] Result<std::optional<std::string>> maybe_text(const json::Reader& from, std::string_view name);
[[nodiscard]] Result<bool> flag(const json::Reader& from, std::string_view name, bool otherwise = false);
[[nodiscard]] Result<std::optional<bool>> maybe_flag(const json::Reader& from, std::string_view name);
[[nodiscard]] Result<std::int64_t> whole(const json::Reader& from, std::string_view name, std::int64_t low,
                                         std::int64_t high, std::int64_t otherwise = 0);
[[nodiscard]] Result<std::optional<std::int64_t>> maybe_whole(const json::Reader& from, std::string_view name,
                                                              std::int64_t low, std::int64_t high);
[[nodiscard]] Result<std::optional<std::string>> maybe_bytes(const json::Reader& from, std::string_view name);
[[nodiscard]] Result<std::map<std::string, std::string>> texts(const json::Reader& from,
                                                               std::string_view name);

} // namespace berth::e2b::fields

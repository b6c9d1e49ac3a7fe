#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"

namespace berth::own {

/// One member of a document. Its type in words: "string", "integer", "number", "boolean", "object", "time"
/// (RFC 3339), "bytes" (base64), "policy" (a preset's name or a document), the name of another shape; "[T]"
/// is a list, "{T}" members of any name, "T|null" may be null, and "T?" may be left out.
struct Member {
    std::string_view name;
    std::string_view type;
    std::string_view says; ///< empty: the name says it
};

/// A document that the API takes or gives. What is taken is read by it: a member that is not here is refused.
struct Shape {
    std::string_view name;
    bool taken = false; ///< from a client
    std::vector<Member> members;
};

[[nodiscard]] const std::vector<Shape>& shapes();
/// Of one that there is.
[[nodiscard]] const Shape& shape(std::string_view name);
/// For json::Reader::only().
[[nodiscard]] std::vector<std::string> members_of(std::string_view shape);

/// As JSON Schema has it; another shape is a reference below #/components/schemas.
[[nodiscard]] json::Object schema_of_type(std::string_view type);
[[nodiscard]] json::Object schema_of(const Shape& shape);

} // namespace berth::own

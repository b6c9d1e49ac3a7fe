#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "base/result.hpp"

/// JSON is Boost.JSON behind these few names.
namespace berth::json {

using Value = boost::json::value;
using Object = boost::json::object;
using Array = boost::json::array;

/// How much of a hostile document we are willing to look at.
struct Limits {
    std::size_t bytes = 8u << 20;
    std::size_t depth = 64;
};

/// One strict document: no trailing text, no comments, valid UTF-8, and no key twice in
/// one object (a second one would silently win elsewhere: two readers, two meanings).
[[nodiscard]] Result<Value> parse(std::string_view text, Limits limits = {});

/// Compact, one line. Bytes that are not UTF-8 are replaced, so the result always parses.
[[nodiscard]] std::string dump(const Value& value);
[[nodiscard]] std::string dump(const Object& object);

/// Where the first string or key is that is not UTF-8, like "/env/PATH": dump() would change it.
[[nodiscard]] std::optional<std::string> not_utf8(const Value& value);

/// Indented by two spaces, for people.
[[nodiscard]] std::string dump_pretty(const Value& value);

/// The document that tells an error: {"error":{"code":…,"message":…,"trail":[…]}}.
[[nodiscard]] Object error_document(const Error& error);

} // namespace berth::json

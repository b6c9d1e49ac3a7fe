// TOML comes from a file somebody else may have written. toml++ bounds nested values but not dotted
// keys: "a.a.a…" makes one table a dot, and taking a hundred thousand nested tables apart overflows
// the stack. So the text is scanned before the library sees it.
#include "policy/document_toml.hpp"

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include "base/strings.hpp"

namespace berth::policy {

namespace {

/// A policy nests three deep; the rest is room for a clear error about an unknown field.
constexpr std::size_t kMaxDots = 16;
constexpr std::size_t kMaxDepth = 32;

std::unexpected<Error> refuse(std::size_t line, std::string_view why)
{
    return fail(Code::Invalid, "not TOML at line {}: {}", line, why);
}

/// The end of the quoted text that opens at `at`, or the end of the line: no string spans lines here.
std::size_t skip_quoted(std::string_view line, std::size_t at)
{
    const char quote = line[at];
    for (++at; at < line.size() && line[at] != quote; ++at)
        if (quote == '"' && line[at] == '\\') ++at;
    return at;
}

/// Refuses a key of too many parts. Exact for what toml++ accepts, because a line always begins
/// outside a string once multi-line strings and foreign line breaks are gone.
Status check_line(std::string_view line, std::size_t number)
{
    std::size_t dots = 0;
    for (std::size_t i = 0; i < line.size() && line[i] != '#'; ++i) {
        const char c = line[i];
        if (c == '"' || c == '\'') {
            i = skip_quoted(line, i);
        } else if (c == '.') {
            if (++dots > kMaxDots) return refuse(number, "a key of too many parts");
        } else if (c == '=' || c == ',' || c == '[' || c == ']' || c == '{' || c == '}') {
            dots = 0;
        }
    }
    return {};
}

Status check_text(std::string_view text)
{
    std::size_t number = 1;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        if (line.ends_with('\r')) line.remove_suffix(1);
        for (const char c : line)
            if ((static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f)
                return refuse(number, "a control character");
        if (line.find("\"\"\"") != std::string_view::npos || line.find("'''") != std::string_view::npos)
            return refuse(number, "multi-line strings have no place in a policy");
        BERTH_CHECK(check_line(line, number));
        text.remove_prefix(std::min(end + 1, text.size()));
        ++number;
    }
    return {};
}

Result<json::Value> convert(const toml::node& node, std::size_t depth);

Result<json::Value> convert_table(const toml::table& table, std::size_t depth)
{
    json::Object object;
    for (const auto& [key, value] : table) {
        BERTH_TRY(auto member, convert(value, depth + 1));
        object.emplace(key.str(), std::move(member));
    }
    return json::Value(std::move(object));
}

Result<json::Value> convert_array(const toml::array& array, std::size_t depth)
{
    json::Array items;
    items.reserve(array.size());
    for (const auto& value : array) {
        BERTH_TRY(auto item, convert(value, depth + 1));
        items.push_back(std::move(item));
    }
    return json::Value(std::move(items));
}

Result<json::Value> convert(const toml::node& node, std::size_t depth)
{
    if (depth > kMaxDepth) return refuse(node.source().begin.line, "nested too deeply");
    switch (node.type()) {
    case toml::node_type::table: return convert_table(*node.as_table(), depth);
    case toml::node_type::array: return convert_array(*node.as_array(), depth);
    case toml::node_type::string: return json::Value(std::string_view(node.as_string()->get()));
    case toml::node_type::integer: return json::Value(node.as_integer()->get());
    case toml::node_type::floating_point: return json::Value(node.as_floating_point()->get());
    case toml::node_type::boolean: return json::Value(node.as_boolean()->get());
    default: return refuse(node.source().begin.line, "dates and times have no place in a policy");
    }
}

} // namespace

Result<json::Value> toml_to_json(std::string_view text)
{
    BERTH_CHECK(check_text(text));
    const toml::parse_result parsed = toml::parse(text);
    if (!parsed) return refuse(parsed.error().source().begin.line, printable(parsed.error().description()));
    return convert_table(parsed.table(), 0);
}

} // namespace berth::policy

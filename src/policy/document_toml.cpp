// TOML comes from a file somebody else may have written, and toml++ 3.3 was not made for that (each of
// these was found by the fuzz target). So the library is given a copy that cannot hurt it:
//  - Characters beyond ASCII can run into its "unreachable" code (U+0244 outside a string does). The
//    copy is ASCII: strings have escapes instead, comments are left out.
//  - Nested values are bounded, dotted keys are not: "a.a.a…" makes one table a dot, and taking a
//    hundred thousand nested tables apart overflows the stack. Parts of a key are counted.
//  - Some malformed text fails assertions ("a = [ }"), which abort, or with NDEBUG become assumptions
//    the optimiser builds on. Here they throw, in every build.
#include "policy/document_toml.hpp"

#include <stdexcept>

#undef NDEBUG
#define TOML_ASSERT(expr) ((expr) ? static_cast<void>(0) : throw std::logic_error("malformed"))
#define TOML_EXCEPTIONS 1
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

#include "base/strings.hpp"
#include "policy/glob.hpp"

namespace berth::policy {

namespace {

/// A policy nests three deep; the rest is room for a clear error about an unknown field.
constexpr std::size_t kMaxDots = 16;
constexpr std::size_t kMaxDepth = 32;

std::unexpected<Error> refuse(std::size_t line, std::string_view why)
{
    return fail(Code::Invalid, "not TOML at line {}: {}", line, why);
}

/// Appends the string that opens at `at` as a basic string in ASCII, and moves to its closing quote. No
/// string spans lines here.
Status copy_string(std::string_view line, std::size_t number, std::size_t& at, std::string& out)
{
    const char quote = line[at++];
    out += '"';
    while (at < line.size() && line[at] != quote) {
        if (quote == '"' && line[at] == '\\') {
            if (at + 1 == line.size() || static_cast<unsigned char>(line[at + 1]) >= 0x80)
                return refuse(number, "an escape of nothing");
            out += line.substr(at, 2);
            at += 2;
            continue;
        }
        const char32_t c = next_character(line, at);
        if (c >= 0x80)
            out += fmt::format("\\U{:08X}", static_cast<std::uint32_t>(c));
        else if (c == '"' || c == '\\')
            (out += '\\') += static_cast<char>(c);
        else
            out += static_cast<char>(c);
    }
    if (at == line.size()) return refuse(number, "a string without an end");
    out += '"';
    return {};
}

/// Appends one line without its comment. A line always begins outside a string, because multi-line strings
/// and foreign line breaks are refused.
Status copy_line(std::string_view line, std::size_t number, std::string& out)
{
    std::size_t dots = 0;
    for (std::size_t i = 0; i < line.size() && line[i] != '#'; ++i) {
        const char c = line[i];
        if (c == '"' || c == '\'') {
            if (i > 0 && std::string_view(" \t=,.[{").find(line[i - 1]) == std::string_view::npos)
                return refuse(number, "a quote in the middle of a word");
            BERTH_CHECK(copy_string(line, number, i, out));
            continue;
        }
        if (static_cast<unsigned char>(c) >= 0x80)
            return refuse(number, "only strings and comments go beyond ASCII");
        if (c == '.' && ++dots > kMaxDots) return refuse(number, "a key of too many parts");
        if (std::string_view("=,[]{}").find(c) != std::string_view::npos) dots = 0;
        out += c;
    }
    return {};
}

Status check_line(std::string_view line, std::size_t number)
{
    for (const char c : line)
        if ((static_cast<unsigned char>(c) < 0x20 && c != '\t') || c == 0x7f)
            return refuse(number, "a control character");
    if (printable_utf8(line) != line) return refuse(number, "a byte that is not UTF-8");
    if (line.find("\"\"\"") != std::string_view::npos || line.find("'''") != std::string_view::npos)
        return refuse(number, "multi-line strings have no place in a policy");
    return {};
}

/// The document line by line, as toml++ may see it.
Result<std::string> harmless_copy(std::string_view text)
{
    std::string out;
    for (std::size_t number = 1; !text.empty(); ++number) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        if (line.ends_with('\r')) line.remove_suffix(1);
        BERTH_CHECK(check_line(line, number));
        BERTH_CHECK(copy_line(line, number, out));
        out += '\n';
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return out;
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
    BERTH_TRY(const std::string copy, harmless_copy(text));
    try {
        return convert_table(toml::parse(copy), 0);
    } catch (const toml::parse_error& error) {
        return refuse(error.source().begin.line, printable(error.description()));
    } catch (const std::logic_error& error) {
        return fail(Code::Invalid, "not TOML: {}", error.what());
    }
}

} // namespace berth::policy

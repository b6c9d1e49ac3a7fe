#include "base/json.hpp"

#include <vector>

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value_stack.hpp>

#include "base/strings.hpp"

namespace berth::json {

namespace {

namespace bj = boost::json;

/// Builds the value like boost::json::parser does, and refuses a repeated key, which that
/// parser lets the last one win.
class StrictHandler {
public:
    static constexpr std::size_t max_object_size = 1u << 20;
    static constexpr std::size_t max_array_size = 1u << 20;
    static constexpr std::size_t max_key_size = 1u << 20;
    static constexpr std::size_t max_string_size = std::size_t(-2);

    bj::value_stack stack;
    std::string duplicate;

    bool on_document_begin(bj::error_code&) { return true; }
    bool on_document_end(bj::error_code&) { return true; }
    bool on_object_begin(bj::error_code&)
    {
        keys_.emplace_back();
        return true;
    }
    bool on_object_end(std::size_t n, bj::error_code& ec)
    {
        // Small objects are searched, large ones sorted: a hostile one must not cost n squared.
        auto& keys = keys_.back();
        std::sort(keys.begin(), keys.end());
        const auto twice = std::adjacent_find(keys.begin(), keys.end());
        if (twice != keys.end()) {
            duplicate = *twice;
            ec = bj::error::syntax;
            return false;
        }
        keys_.pop_back();
        stack.push_object(n);
        return true;
    }
    bool on_array_begin(bj::error_code&) { return true; }
    bool on_array_end(std::size_t n, bj::error_code&)
    {
        stack.push_array(n);
        return true;
    }
    bool on_key_part(bj::string_view s, std::size_t, bj::error_code&)
    {
        key_.append(s.data(), s.size());
        stack.push_chars(s);
        return true;
    }
    bool on_key(bj::string_view s, std::size_t, bj::error_code&)
    {
        key_.append(s.data(), s.size());
        keys_.back().push_back(std::exchange(key_, {}));
        stack.push_key(s);
        return true;
    }
    bool on_string_part(bj::string_view s, std::size_t, bj::error_code&)
    {
        stack.push_chars(s);
        return true;
    }
    bool on_string(bj::string_view s, std::size_t, bj::error_code&)
    {
        stack.push_string(s);
        return true;
    }
    bool on_number_part(bj::string_view, bj::error_code&) { return true; }
    bool on_int64(std::int64_t i, bj::string_view, bj::error_code&)
    {
        stack.push_int64(i);
        return true;
    }
    bool on_uint64(std::uint64_t u, bj::string_view, bj::error_code&)
    {
        stack.push_uint64(u);
        return true;
    }
    bool on_double(double d, bj::string_view, bj::error_code&)
    {
        stack.push_double(d);
        return true;
    }
    bool on_bool(bool b, bj::error_code&)
    {
        stack.push_bool(b);
        return true;
    }
    bool on_null(bj::error_code&)
    {
        stack.push_null();
        return true;
    }
    bool on_comment_part(bj::string_view, bj::error_code&) { return true; }
    bool on_comment(bj::string_view, bj::error_code&) { return true; }

private:
    std::string key_;
    std::vector<std::vector<std::string>> keys_;
};

bool beyond_ascii(std::string_view text)
{
    return std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
}

/// Replaces what is not UTF-8 in every string and key, so that what we print always parses.
void escape_invalid(Value& value)
{
    if (auto* s = value.if_string()) {
        if (beyond_ascii({s->data(), s->size()})) *s = printable_utf8({s->data(), s->size()});
    } else if (auto* a = value.if_array()) {
        for (auto& item : *a) escape_invalid(item);
    } else if (auto* o = value.if_object()) {
        bool keys = false;
        for (auto& item : *o) {
            escape_invalid(item.value());
            keys = keys || beyond_ascii(item.key());
        }
        if (!keys) return;
        Object clean; // keys cannot be changed in place
        for (auto& item : *o) clean.insert_or_assign(printable_utf8(item.key()), std::move(item.value()));
        *o = std::move(clean);
    }
}

void pretty(std::string& out, const Value& value, std::size_t indent)
{
    const std::string pad(indent + 2, ' ');
    const auto close = [&](char c) { (out += '\n') += std::string(indent, ' ') + c; };
    if (const auto* o = value.if_object(); o != nullptr && !o->empty()) {
        const char* separator = "{\n";
        for (const auto& item : *o) {
            out += separator + pad + bj::serialize(Value(item.key())) + ": ";
            pretty(out, item.value(), indent + 2);
            separator = ",\n";
        }
        close('}');
    } else if (const auto* a = value.if_array(); a != nullptr && !a->empty()) {
        const char* separator = "[\n";
        for (const auto& item : *a) {
            out += separator + pad;
            pretty(out, item, indent + 2);
            separator = ",\n";
        }
        close(']');
    } else {
        out += bj::serialize(value);
    }
}

} // namespace

Result<Value> parse(std::string_view text, Limits limits)
{
    if (text.size() > limits.bytes)
        return fail(Code::Invalid, "JSON of {} bytes is over the limit of {}", text.size(), limits.bytes);
    bj::parse_options options;
    options.max_depth = limits.depth;
    bj::basic_parser<StrictHandler> parser(options);
    auto& handler = parser.handler();
    handler.stack.reset();
    bj::error_code ec;
    const std::size_t used = parser.write_some(false, text.data(), text.size(), ec);
    if (!handler.duplicate.empty())
        return fail(Code::Invalid, "key \"{}\" stands twice in one object", printable(handler.duplicate, 60));
    if (!ec && used < text.size() && text.find_first_not_of(" \t\r\n", used) != std::string_view::npos)
        ec = bj::error::extra_data;
    if (ec) {
        const std::string_view before = text.substr(0, used);
        const auto line = 1 + std::ranges::count(before, '\n');
        return fail(Code::Invalid, "not JSON at line {}: {}", line, ec.message());
    }
    return handler.stack.release();
}

std::string dump(const Value& value)
{
    Value clean = value;
    escape_invalid(clean);
    return bj::serialize(clean);
}

std::optional<std::string> not_utf8(const Value& value)
{
    const auto bad = [](std::string_view text) { return beyond_ascii(text) && printable_utf8(text) != text; };
    if (const auto* s = value.if_string())
        return bad({s->data(), s->size()}) ? std::optional<std::string>("") : std::nullopt;
    if (const auto* a = value.if_array()) {
        for (std::size_t i = 0; i < a->size(); ++i)
            if (auto at = not_utf8((*a)[i])) return fmt::format("/{}{}", i, *at);
    } else if (const auto* o = value.if_object()) {
        for (const auto& item : *o) {
            const std::string key = "/" + std::string(item.key());
            if (bad(item.key())) return key;
            if (auto at = not_utf8(item.value())) return key + *at;
        }
    }
    return std::nullopt;
}

std::string dump(const Object& object) { return dump(Value(object)); }

std::string dump_pretty(const Value& value)
{
    Value clean = value;
    escape_invalid(clean);
    std::string out;
    pretty(out, clean, 0);
    return out;
}

Object error_document(const Error& error)
{
    Object body;
    body["code"] = std::string_view(to_string(error.code));
    body["message"] = error.message;
    Array trail;
    for (const auto& step : error.trail) trail.emplace_back(step);
    body["trail"] = std::move(trail);
    Object document;
    document["error"] = std::move(body);
    return document;
}

} // namespace berth::json

#include "base/json_reader.hpp"

#include <algorithm>

#include "base/strings.hpp"

namespace berth::json {

namespace {

std::string_view kind_name(const Value& value)
{
    switch (value.kind()) {
    case boost::json::kind::null: return "null";
    case boost::json::kind::bool_: return "a boolean";
    case boost::json::kind::int64:
    case boost::json::kind::uint64:
    case boost::json::kind::double_: return "a number";
    case boost::json::kind::string: return "a string";
    case boost::json::kind::array: return "an array";
    case boost::json::kind::object: return "an object";
    }
    return "something else";
}

/// RFC 6901: "~" and "/" inside a name are escaped.
std::string pointer_token(std::string_view name)
{
    const auto plain = [](char c) { return c > ' ' && c < 0x7f && c != '~' && c != '/'; };
    if (name.size() <= 80 && std::ranges::all_of(name, plain)) return std::string(name);
    std::string out;
    for (const char c : name) {
        if (c == '~')
            out += "~0";
        else if (c == '/')
            out += "~1";
        else
            out += c;
    }
    return printable(out, 80);
}

} // namespace

std::unexpected<Error> Reader::expected(std::string_view what) const
{
    return refuse("expected {}, found {}", what, kind_name(*value_));
}

Result<std::string> Reader::string() const
{
    const auto* s = value_->if_string();
    if (s == nullptr) return expected("a string");
    return std::string(s->data(), s->size());
}

Result<bool> Reader::boolean() const
{
    const auto* b = value_->if_bool();
    if (b == nullptr) return expected("true or false");
    return *b;
}

Result<std::int64_t> Reader::integer(std::int64_t low, std::int64_t high) const
{
    if (!value_->is_int64() && !value_->is_uint64()) return expected("a whole number");
    // A parser makes the unsigned kind of large ones only; documents of our own have small ones, too.
    boost::system::error_code large;
    const auto i = value_->to_number<std::int64_t>(large);
    if (large || i < low || i > high) return refuse("out of range: a whole number from {} to {}", low, high);
    return i;
}

Result<double> Reader::number() const
{
    if (!value_->is_number()) return expected("a number");
    return value_->to_number<double>();
}

Result<std::vector<Reader>> Reader::array() const
{
    const auto* a = value_->if_array();
    if (a == nullptr) return expected("an array");
    std::vector<Reader> items;
    items.reserve(a->size());
    for (std::size_t i = 0; i < a->size(); ++i)
        items.push_back(Reader((*a)[i], fmt::format("{}/{}", path_, i)));
    return items;
}

Result<std::vector<std::string>> Reader::strings() const
{
    BERTH_TRY(const auto items, array());
    std::vector<std::string> out;
    out.reserve(items.size());
    for (const auto& item : items) {
        BERTH_TRY(auto text, item.string());
        out.push_back(std::move(text));
    }
    return out;
}

Result<std::vector<std::pair<std::string, Reader>>> Reader::members() const
{
    const auto* o = value_->if_object();
    if (o == nullptr) return expected("an object");
    std::vector<std::pair<std::string, Reader>> out;
    out.reserve(o->size());
    for (const auto& item : *o) {
        std::string name(item.key());
        Reader reader(item.value(), fmt::format("{}/{}", path_, pointer_token(name)));
        out.emplace_back(std::move(name), std::move(reader));
    }
    return out;
}

Result<std::optional<Reader>> Reader::find(std::string_view name) const
{
    const auto* o = value_->if_object();
    if (o == nullptr) return expected("an object");
    const auto* member = o->if_contains(boost::json::string_view(name.data(), name.size()));
    if (member == nullptr || member->is_null()) return std::optional<Reader>{};
    return std::optional<Reader>(Reader(*member, path_ + '/' + pointer_token(name)));
}

Result<Reader> Reader::at(std::string_view name) const
{
    BERTH_TRY(auto member, find(name));
    if (!member) return refuse("missing \"{}\"", name);
    return *std::move(member);
}

Status Reader::only(const std::vector<std::string>& known) const
{
    BERTH_TRY(const auto all, members());
    for (const auto& [name, reader] : all) {
        if (std::ranges::find(known, name) != known.end()) continue;
        const std::string near = nearest(name, known);
        if (near.empty()) return reader.refuse("unknown field");
        return reader.refuse("unknown field, did you mean \"{}\"?", near);
    }
    return {};
}

} // namespace berth::json

// Every byte here comes from a stranger. What it would cost to build the document is bounded before it is
// built: its size, then its number of values by a look at its punctuation alone, then its depth.
#include "protocol/jsonrpc/message.hpp"

#include <boost/json/serialize.hpp>

#include "base/json_reader.hpp"
#include "base/strings.hpp"

namespace berth::jsonrpc {

namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

json::Value id_value(const Id& id)
{
    return std::visit([](const auto& one) { return json::Value(one); }, id);
}

Result<Id> read_id(const json::Value& value)
{
    if (const auto* number = value.if_int64()) return Id(*number);
    if (const auto* text = value.if_string()) return Id(std::string(text->data(), text->size()));
    return fail(Code::Invalid, "/id: expected a string or a whole number");
}

Result<ErrorResponse> read_error(Id id, const json::Object& object)
{
    const auto* const error = object.if_contains("error");
    if (error == nullptr) return fail(Code::Invalid, "neither a request nor an answer");
    const json::Reader reader(*error);
    BERTH_TRY(const auto code, reader.at("code"));
    BERTH_TRY(const auto message, reader.at("message"));
    ErrorResponse out{.id = std::move(id)};
    BERTH_TRY(out.code, code.integer(INT64_MIN, INT64_MAX));
    BERTH_TRY(out.message, message.string());
    return out;
}

/// Our own strings are UTF-8; whatever we pass on from elsewhere was made so.
std::string write(json::Object object) { return boost::json::serialize(json::Value(std::move(object))); }

} // namespace

std::size_t count_values(std::string_view text)
{
    std::size_t count = 1;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (c == '"') {
            for (++i; i < text.size() && text[i] != '"'; ++i)
                if (text[i] == '\\') ++i;
        } else if (c == ',') {
            ++count;
        } else if (c == '{' || c == '[') {
            std::size_t next = i + 1;
            while (next < text.size() && is_space(text[next])) ++next;
            const bool empty = next < text.size() && text[next] == (c == '{' ? '}' : ']');
            if (!empty) ++count;
            i = next - 1;
        }
    }
    return count;
}

Result<Message> decode(std::string_view text, const Limits& limits)
{
    if (text.size() > limits.bytes)
        return fail(Code::Invalid, "a message of {} bytes; at most {}", text.size(), limits.bytes);
    if (count_values(text) > limits.values)
        return fail(Code::Invalid, "a message of more than {} values", limits.values);
    BERTH_TRY(auto value, json::parse(text, {.bytes = limits.bytes, .depth = limits.depth}));
    auto* const object = value.if_object();
    if (object == nullptr) return fail(Code::Invalid, "a message is one object");
    auto* const method = object->if_contains("method");
    auto* const id_member = object->if_contains("id");
    Id id;
    if (id_member != nullptr) {
        BERTH_TRY(id, read_id(*id_member));
    }
    auto* const params = object->if_contains("params");
    const auto take = [](json::Value* from) { return from == nullptr ? json::Value() : std::move(*from); };
    if (method != nullptr) {
        const auto* const name = method->if_string();
        if (name == nullptr) return fail(Code::Invalid, "/method: expected a string");
        std::string word(name->data(), name->size());
        if (id_member == nullptr)
            return Message(Notification{.method = std::move(word), .params = take(params)});
        return Message(Request{.id = std::move(id), .method = std::move(word), .params = take(params)});
    }
    if (id_member == nullptr) return fail(Code::Invalid, "a message has a method or an id");
    if (auto* const result = object->if_contains("result"))
        return Message(Response{.id = std::move(id), .result = std::move(*result)});
    BERTH_TRY(auto error, read_error(std::move(id), *object));
    return Message(std::move(error));
}

std::string encode(const Request& request)
{
    json::Object out;
    out["id"] = id_value(request.id);
    out["method"] = request.method;
    out["params"] = request.params;
    return write(std::move(out));
}

std::string encode(const Notification& notification)
{
    json::Object out;
    out["method"] = notification.method;
    out["params"] = notification.params;
    return write(std::move(out));
}

std::string encode(const Response& response)
{
    json::Object out;
    out["id"] = id_value(response.id);
    out["result"] = response.result;
    return write(std::move(out));
}

std::string encode(const ErrorResponse& error)
{
    json::Object body;
    body["code"] = error.code;
    body["message"] = printable_utf8(error.message);
    json::Object out;
    out["error"] = std::move(body);
    out["id"] = id_value(error.id);
    return write(std::move(out));
}

} // namespace berth::jsonrpc

#include <algorithm>
#include <cstdlib>

#include "base/json_reader.hpp"
#include "base/strings.hpp"
#include "cli/remote.hpp"

namespace berth::cli::remote {

namespace {

using http_client::HttpAnswer;

Code code_of(std::string_view name)
{
    for (int i = 0; i <= static_cast<int>(Code::Internal); ++i)
        if (to_string(static_cast<Code>(i)) == name) return static_cast<Code>(i);
    return Code::Internal;
}

/// As the server tells it, or by its status alone.
Error refusal(const HttpAnswer& answer)
{
    Error out{.code = answer.status >= 500 ? Code::Unavailable : Code::Internal,
              .message = fmt::format("the server answers {}", answer.status)};
    const auto document = json::parse(answer.body);
    if (document && document->is_object()) out = told_error(document->get_object(), std::move(out));
    if (answer.status == 401) out.message += " (BERTH_API_KEY is ours)";
    return out;
}

/// A server keeps the keys of all tenants apart: "v1:TENANT:KEY".
std::string_view own_key(std::string_view key)
{
    if (!key.starts_with("v1:")) return key;
    const auto end = key.find(':', 3);
    return end == std::string_view::npos ? key : key.substr(end + 1);
}

} // namespace

Error told_error(const json::Object& document, Error otherwise)
{
    const auto* const error = document.if_contains("error");
    if (error == nullptr || !error->is_object()) return otherwise;
    otherwise.code = code_of(text_of(error->get_object(), "code"));
    if (const auto message = text_of(error->get_object(), "message"); !message.empty())
        otherwise.message = printable(message, 400);
    return otherwise;
}

std::string text_of(const json::Object& object, std::string_view name)
{
    const auto* const found = object.if_contains(name);
    return found != nullptr && found->is_string() ? std::string(found->get_string()) : std::string{};
}

Server::Server(http_client::Origin origin, std::string key)
    : base_(std::move(origin.path)), key_(std::move(key)),
      client_(std::make_unique<http_client::Client>(std::move(origin.place)))
{
}

Result<Server> Server::open(const std::string& url)
{
    BERTH_TRY(auto origin, http_client::parse_url(url));
    origin.place.who = "the server";
    origin.place.advice = "is berth serve running there?";
    const char* key = std::getenv("BERTH_API_KEY"); // NOLINT(concurrency-mt-unsafe): before any thread
    return Server(std::move(origin), key == nullptr ? std::string{} : std::string(key));
}

Result<HttpAnswer> Server::exchange(http_client::HttpRequest request, const ByteSink& sink,
                                    std::chrono::milliseconds patience)
{
    request.target = base_ + request.target;
    if (!key_.empty()) request.headers["Authorization"] = "Bearer " + key_;
    auto answer = client_->call(std::move(request), {.patience = patience}, sink).answer;
    if (!answer) return answer;
    if (answer->status >= 300) return std::unexpected(refusal(*answer));
    return answer;
}

Result<json::Object> Server::call(std::string method, std::string path, std::string body)
{
    http_client::HttpRequest request{
        .method = std::move(method), .target = std::move(path), .body = std::move(body)};
    if (!request.body.empty()) request.headers["Content-Type"] = "application/json";
    BERTH_TRY(const auto answer, exchange(std::move(request), {}));
    if (answer.body.empty()) return json::Object{};
    BERTH_TRY(auto document, json::parse(answer.body, {.bytes = std::size_t{64} << 20}));
    if (!document.is_object()) return fail(Code::Unavailable, "the server's answer is no document");
    return std::move(document.get_object());
}

Status Server::stream(std::string path, const ByteSink& sink, std::chrono::milliseconds patience)
{
    BERTH_TRY([[maybe_unused]] const auto answer, exchange({.target = std::move(path)}, sink, patience));
    return {};
}

Status Server::upload(std::string path, ByteSource source)
{
    http_client::HttpRequest request{.method = "PUT", .target = std::move(path)};
    request.source = std::move(source);
    BERTH_TRY([[maybe_unused]] const auto answer, exchange(std::move(request), {}));
    return {};
}

Result<UniqueFd> Server::dial(const std::string& path)
{
    constexpr std::size_t most = std::size_t{16} << 10;
    const auto until = system_clock().steady() + kPatience;
    BERTH_TRY(auto wire, client_->connect());
    std::string request = fmt::format("GET {}{} HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\n"
                                      "Upgrade: tcp\r\n",
                                      base_, path, client_->place().authority());
    if (!key_.empty()) request += "Authorization: Bearer " + key_ + "\r\n";
    BERTH_CHECK(wire.write(request + "\r\n", until));
    // Byte by byte: what follows the head is no longer HTTP.
    std::string head;
    while (!head.ends_with("\r\n\r\n")) {
        char byte = 0;
        BERTH_TRY(const auto n, wire.read(&byte, 1, until));
        if (n == 0 || head.size() > most) return fail(Code::Unavailable, "the server hung up");
        head += byte;
    }
    if (head.starts_with("HTTP/1.1 101 ")) return http_client::Wire::into_socket(std::move(wire));
    HttpAnswer answer;
    const auto status = parse_int(head.substr(head.find(' ') + 1, 3), 100, 599, "status");
    answer.status = status ? static_cast<unsigned>(*status) : 500;
    for (char byte = 0; answer.body.size() < most && !json::parse(answer.body);) {
        const auto n = wire.read(&byte, 1, until);
        if (!n || *n == 0) break;
        answer.body += byte;
    }
    return std::unexpected(refusal(answer));
}

Result<std::string> Server::path_of(const std::string& ref)
{
    BERTH_TRY(const auto document, call("GET", "/v1/sandboxes"));
    const auto* const list = document.if_contains("sandboxes");
    if (list == nullptr || !list->is_array()) return fail(Code::Unavailable, "the server lists no sandboxes");
    std::vector<std::string> exact, near;
    for (const auto& one : list->get_array()) {
        if (!one.is_object()) continue;
        const auto id = text_of(one.get_object(), "id");
        const auto key = text_of(one.get_object(), "key");
        if (id == ref || text_of(one.get_object(), "name") == ref || key == ref || own_key(key) == ref)
            exact.push_back(id);
        else if (ref.size() >= 3 && (id.starts_with(ref) || id.starts_with("sbx_" + ref)))
            near.push_back(id);
    }
    const auto& found = exact.empty() ? near : exact;
    if (found.empty())
        return fail(Code::NotFound, "the server has no sandbox '{}' of ours", printable(ref, 60));
    if (found.size() > 1)
        return fail(Code::Conflict, "'{}' stands for {} sandboxes there", printable(ref, 60), found.size());
    return "/v1/sandboxes/" + http_client::url_encode(found.front());
}

} // namespace berth::cli::remote

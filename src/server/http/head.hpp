#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"

/// HTTP as the rest of the server sees it: plain structs.
namespace berth::http {

using Pairs = std::vector<std::pair<std::string, std::string>>;

/// The value of the first of that name, in whatever case; null when there is none.
[[nodiscard]] const std::string* find_header(const Pairs& headers, std::string_view name) noexcept;
[[nodiscard]] bool same_word(std::string_view one, std::string_view other) noexcept;

struct RequestHead {
    std::string id;   ///< by which the log and the client find each other
    std::string peer; ///< the address it came from
    std::string method;
    std::string target;                ///< as it was sent
    std::string path;                  ///< of the target, not decoded
    std::vector<std::string> segments; ///< of the path, each decoded
    Pairs query;                       ///< decoded once
    Pairs headers;
    std::optional<std::uint64_t> length; ///< of the body, where it is known
    bool chunked = false;
    bool keep_alive = true;
    bool upgrade = false; ///< to another protocol

    [[nodiscard]] const std::string* header(std::string_view name) const noexcept
    {
        return find_header(headers, name);
    }
    /// Empty when it is not there.
    [[nodiscard]] std::string_view value(std::string_view name) const noexcept;
    [[nodiscard]] const std::string* parameter(std::string_view name) const noexcept;
    /// The host without its port, in lower case.
    [[nodiscard]] std::string host() const;
    /// "application/json" of "Application/JSON; charset=utf-8".
    [[nodiscard]] std::string media_type() const;
};

/// Fills path, segments and query from the target. Invalid: not a path, badly encoded, or of another host.
[[nodiscard]] Status split_target(RequestHead& head);
/// Invalid: one of those that say who asks, and whom, stands there twice.
[[nodiscard]] Status check_single(const RequestHead& head);

struct Response {
    int status = 200;
    Pairs headers;
    std::string body;

    Response& with(std::string name, std::string value) &;
    [[nodiscard]] Response with(std::string name, std::string value) &&;
};

[[nodiscard]] Response json_response(int status, std::string body);
[[nodiscard]] Response json_response(int status, const json::Object& document);
[[nodiscard]] Response text_response(int status, std::string body);
[[nodiscard]] Response empty_response(int status = 204);

[[nodiscard]] std::string_view reason(int status) noexcept;
/// The one place where an error of ours becomes a status.
[[nodiscard]] int status_of(const Error& error) noexcept;

/// The bytes of a response's head. Without a length the body is chunked, or there is none.
enum class Framing { Length, Chunked, None };
[[nodiscard]] std::string render_head(int status, const Pairs& headers, Framing framing, std::uint64_t length,
                                      bool keep_alive);

} // namespace berth::http

#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "base/result.hpp"

namespace berth::codex {

/// What `http/request` asks for.
struct HttpParams {
    enum class Redirect { Follow, Stop };
    std::string method; ///< one of those that ask for a thing or change one
    std::string url;
    std::vector<std::pair<std::string, std::string>> headers; ///< names in lower case
    std::string body;
    std::optional<std::chrono::milliseconds> timeout;
    Redirect redirect = Redirect::Follow;
    std::string request_id;
    bool stream = false;
};

/// Refuses headers that say where a message goes and where it ends, and values from our environment.
[[nodiscard]] Result<HttpParams> read_http(const json::Value& params);

} // namespace berth::codex

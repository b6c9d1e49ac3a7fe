#pragma once

#include "base/clock.hpp"
#include "server/http/head.hpp"

namespace berth::e2b {

/// How a file is answered: which part of it, and with which headers.
struct Download {
    int status = 200;
    http::Pairs headers;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
};

[[nodiscard]] Download plan_download(const http::RequestHead& head, const std::string& path,
                                     std::uint64_t size, WallTime modified);

/// Whether contents may come as they are.
[[nodiscard]] bool identity_acceptable(std::string_view accept_encoding);
[[nodiscard]] bool gzip_acceptable(std::string_view accept_encoding);

} // namespace berth::e2b

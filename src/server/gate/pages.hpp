#pragma once

#include <set>
#include <string>

#include "server/http/head.hpp"

namespace berth::gate {

/// Which names we answer to. A web page can make a browser send requests to a local server, or make its
/// own name stand for our address: neither may reach a sandbox.
struct Names {
    std::string address;           ///< that we listen on
    std::string domain;            ///< without its port; may be empty
    std::set<std::string> origins; ///< that may ask us beside our own; "*": all

    [[nodiscard]] bool own_host(const std::string& host) const;
    /// Nothing, or why the request is refused: by the name it came to, and by the page it came from.
    /// Requests without an Origin are no web page's.
    [[nodiscard]] std::string refuse_host(const http::RequestHead& head) const;
    [[nodiscard]] std::string refuse_page(const http::RequestHead& head) const;
};

} // namespace berth::gate

#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/strings.hpp"
#include "base/task.hpp"
#include "server/http/exchange.hpp"

namespace berth::http {

/// What of the path stood for a "{name}", in order.
using Parameters = std::vector<std::string>;

/// Routes of one face: a method, a pattern like "/sandboxes/{id}/pause", and what answers. A last part like
/// "{path...}" stands for any number of them, and is no parameter.
template <class Handler> class Router {
public:
    struct Route {
        std::string method;
        std::string pattern;
        std::vector<std::string> parts;
        Handler handler;
    };
    struct Match {
        const Route* route = nullptr;
        Parameters parameters;
        bool path_known = false; ///< with another method
    };

    void add(std::string method, std::string pattern, Handler handler)
    {
        auto parts = split(std::string_view(pattern).substr(1), '/');
        routes_.push_back({std::move(method), std::move(pattern), std::move(parts), std::move(handler)});
    }

    /// Literal parts win over parameters where both would do: routes are tried in order.
    [[nodiscard]] Match find(const RequestHead& head) const
    {
        Match out;
        for (const auto& route : routes_) {
            if (!matches(route.parts, head.segments)) continue;
            out.path_known = true;
            if (route.method != head.method) continue;
            out.route = &route;
            for (std::size_t i = 0; i < std::min(route.parts.size(), head.segments.size()); ++i)
                if (route.parts[i].starts_with('{') && !route.parts[i].ends_with("...}"))
                    out.parameters.push_back(head.segments[i]);
            return out;
        }
        return out;
    }

    [[nodiscard]] const std::vector<Route>& routes() const noexcept { return routes_; }

private:
    static bool matches(const std::vector<std::string>& parts, const std::vector<std::string>& segments)
    {
        const bool open = parts.back().ends_with("...}");
        const std::size_t count = parts.size() - (open ? 1 : 0);
        if (open ? segments.size() < count : segments.size() != count) return false;
        for (std::size_t i = 0; i < count; ++i)
            if (!parts[i].starts_with('{') && parts[i] != segments[i]) return false;
        return true;
    }

    std::vector<Route> routes_;
};

} // namespace berth::http

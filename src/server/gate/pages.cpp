#include "server/gate/pages.hpp"

#include "base/strings.hpp"
#include "server/gate/face.hpp"

namespace berth::gate {

namespace {

/// "name" of "https://name:443".
std::string host_of_origin(std::string_view origin)
{
    const auto scheme = origin.find("://");
    if (scheme == std::string_view::npos) return {};
    http::RequestHead probe;
    probe.headers.emplace_back("Host", std::string(origin.substr(scheme + 3)));
    return probe.host();
}

/// "8000-id.domain": its pages are whatever runs inside.
bool of_a_sandbox(std::string_view host)
{
    const auto digits = host.find_first_not_of("0123456789");
    return digits != std::string_view::npos && digits > 0 && host[digits] == '-';
}

} // namespace

bool Names::own_host(const std::string& host) const
{
    if (host == "localhost" || host == "127.0.0.1" || host == "[::1]") return true;
    if (host == address || host == "[" + address + "]") return true;
    if (domain.empty()) return false;
    return host == domain || host.ends_with("." + domain);
}

std::string Names::refuse_host(const http::RequestHead& head) const
{
    const auto host = head.host();
    // Listening on every address, the machine has names we cannot know.
    const bool everywhere = address == "0.0.0.0" || address == "::";
    if (own_host(host) || (everywhere && !host.empty())) return {};
    return fmt::format("this server does not answer to the name '{}'", printable(host, 80));
}

std::string Names::refuse_page(const http::RequestHead& head) const
{
    const auto* const origin = head.header("origin");
    if (origin == nullptr || origins.contains("*") || origins.contains(*origin)) return {};
    const auto from = host_of_origin(*origin);
    if (own_host(from) && !of_a_sandbox(from)) return {};
    return fmt::format("the origin '{}' may not use this server: berth serve --allow-origin allows it",
                       printable(*origin, 80));
}

std::optional<std::string> tenant_of(const Ground& ground, std::string_view secret)
{
    if (!ground.authentication) return std::string(Keys::kDefaultTenant);
    return ground.keys.tenant_of(secret);
}

} // namespace berth::gate

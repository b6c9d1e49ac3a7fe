#include "http_client/place.hpp"

#include "base/strings.hpp"

namespace berth::http_client {

namespace {

/// A name or an address; "[::1]" without its brackets.
bool good_host(std::string_view host)
{
    if (host.empty() || host.size() > 253) return false;
    for (const char c : host) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                           c == '-' || c == '_' || c == '.' || c == ':';
        if (!plain) return false;
    }
    return true;
}

} // namespace

std::string Place::text() const
{
    if (local()) return "unix://" + socket;
    return (tls ? "https://" : "http://") + authority();
}

std::string Place::authority() const
{
    if (local()) return "localhost";
    const std::string name = host.find(':') == std::string::npos ? host : "[" + host + "]";
    return port == (tls ? 443 : 80) ? name : fmt::format("{}:{}", name, port);
}

Result<Origin> parse_url(std::string_view text)
{
    const auto bad = [&] {
        return fail(Code::Invalid, "'{}' is no address like https://host:port", printable(text, 100));
    };
    Origin out;
    std::string_view rest = text;
    if (rest.starts_with("https://"))
        out.place.tls = true;
    else if (!rest.starts_with("http://"))
        return bad();
    rest.remove_prefix(out.place.tls ? 8 : 7);
    if (rest.find_first_of("?#@ \t\r\n\\") != std::string_view::npos) return bad();
    const auto slash = rest.find('/');
    if (slash != std::string_view::npos) {
        out.path = rest.substr(slash);
        while (out.path.ends_with('/')) out.path.pop_back();
        rest = rest.substr(0, slash);
    }
    std::string_view port;
    if (rest.starts_with('[')) {
        const auto end = rest.find(']');
        if (end == std::string_view::npos) return bad();
        out.place.host = rest.substr(1, end - 1);
        rest = rest.substr(end + 1);
        if (!rest.empty() && !rest.starts_with(':')) return bad();
        port = rest.empty() ? rest : rest.substr(1);
    } else {
        const auto colon = rest.find(':');
        out.place.host = rest.substr(0, colon);
        if (out.place.host.find(':') != std::string::npos) return bad();
        if (colon != std::string_view::npos) port = rest.substr(colon + 1);
    }
    if (!good_host(out.place.host)) return bad();
    out.place.port = out.place.tls ? 443 : 80;
    if (!port.empty()) {
        const auto number = parse_int(port, 1, 65535, "port");
        if (!number) return bad();
        out.place.port = static_cast<std::uint16_t>(*number);
    }
    return out;
}

} // namespace berth::http_client

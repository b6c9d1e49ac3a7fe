#include "server/e2b/destination.hpp"

#include "base/strings.hpp"

namespace berth::e2b {

namespace {

Result<Destination> checked(std::string_view id, std::string_view port)
{
    if (!is_sandbox_id(id)) return fail(Code::Invalid, "Invalid sandbox ID");
    const auto number = parse_int(port, 1, 65535, "port");
    if (!number) return fail(Code::Invalid, "Invalid sandbox port");
    return Destination{.sandbox = std::string(id), .port = static_cast<std::uint16_t>(*number)};
}

/// "49983-iabc" of "49983-iabc.sbx.localhost"; nothing for any other host.
std::optional<std::string> label_of(const http::RequestHead& head, const std::string& domain)
{
    const std::string bare = domain.substr(0, domain.find(':'));
    if (bare.empty()) return std::nullopt;
    const std::string host = head.host();
    if (!host.ends_with("." + bare)) return std::nullopt;
    const std::string label = host.substr(0, host.size() - bare.size() - 1);
    if (label.empty() || label.find('.') != std::string::npos || label.front() < '0' || label.front() > '9')
        return std::nullopt;
    return label;
}

} // namespace

Result<std::optional<Destination>> destination_of(const http::RequestHead& head, const std::string& domain)
{
    if (const auto label = label_of(head, domain)) {
        const auto parts = split(*label, '-');
        if (parts.size() < 2) return fail(Code::Invalid, "Invalid host");
        BERTH_TRY(auto out, checked(parts[1], parts[0]));
        return out;
    }
    const auto* const id = head.header("e2b-sandbox-id");
    const auto* const port = head.header("e2b-sandbox-port");
    if (id == nullptr && port == nullptr) return std::optional<Destination>{};
    if (id == nullptr || port == nullptr)
        return fail(Code::Invalid, "E2b-Sandbox-Id and E2b-Sandbox-Port belong together");
    BERTH_TRY(auto out, checked(*id, *port));
    return out;
}

} // namespace berth::e2b

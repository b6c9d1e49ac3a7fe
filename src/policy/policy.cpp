#include "policy/policy.hpp"

#include "policy/symbols.hpp"
#include "policy/target.hpp"

namespace berth::policy {

std::string_view to_string(Access access) noexcept
{
    switch (access) {
    case Access::Deny: return "deny";
    case Access::Read: return "read";
    case Access::Write: return "write";
    }
    return "?";
}

std::string_view to_string(Network network) noexcept
{
    switch (network) {
    case Network::Off: return "off";
    case Network::Allow: return "allow";
    case Network::Open: return "open";
    case Network::Host: return "host";
    }
    return "?";
}

std::string to_string(const Target& target)
{
    if (const auto* symbolic = std::get_if<Symbolic>(&target)) {
        const std::string_view name = symbol_name(symbolic->symbol);
        return symbolic->below.empty() ? std::string(name) : fmt::format("{}/{}", name, symbolic->below);
    }
    if (const auto* path = std::get_if<Path>(&target))
        return has_wildcard(path->text) ? escape_pattern(path->text) : path->text;
    return std::get<Glob>(target).text;
}

} // namespace berth::policy

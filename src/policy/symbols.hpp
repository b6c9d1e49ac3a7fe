#pragma once

#include <array>
#include <string_view>
#include <utility>

#include "policy/policy.hpp"

namespace berth::policy {

/// The one table of symbols and their spelling.
inline constexpr std::array<std::pair<Symbol, std::string_view>, 5> kSymbols{{
    {Symbol::Root, ":root"},
    {Symbol::Minimal, ":minimal"},
    {Symbol::WorkspaceRoots, ":workspace_roots"},
    {Symbol::Tmpdir, ":tmpdir"},
    {Symbol::Home, ":home"},
}};

[[nodiscard]] constexpr std::string_view symbol_name(Symbol symbol) noexcept
{
    for (const auto& [known, name] : kSymbols)
        if (known == symbol) return name;
    return ":?";
}

} // namespace berth::policy

#pragma once

#include <string>
#include <string_view>

#include "core/sandbox_spec.hpp"

namespace berth::gate {

inline constexpr std::string_view kTenantLabel = "berth.tenant"; ///< on every sandbox a tenant made

/// Whether a sandbox is the tenant's: its label says so. What the operator made by other ways may show his
/// own directories: it is nobody's here.
[[nodiscard]] inline bool owned(const SandboxSpec& spec, const std::string& tenant)
{
    const auto label = spec.labels.find(std::string(kTenantLabel));
    return label != spec.labels.end() && label->second == tenant;
}

} // namespace berth::gate

#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace berth::e2b {

/// The one that is always there: the machine's own programs, with accounts of its own.
inline constexpr std::string_view kBaseTemplate = "base";
/// What clients begin with who ask for MCP servers: `base` too, for a machine that has the gateway's program.
inline constexpr std::string_view kGatewayTemplate = "mcp-gateway";
/// What clients begin with who run code: `base` too, with an interpreter behind a port.
inline constexpr std::string_view kInterpreterTemplate = "code-interpreter-v1";

/// "[namespace/]alias[:tag]", lower-cased; no tag is "default". A tag is no UUID: such are builds.
struct TemplateName {
    std::string space;
    std::string alias;
    std::string tag = "default";
};

[[nodiscard]] Result<TemplateName> parse_template_name(std::string_view text);
[[nodiscard]] std::string lower_case(std::string_view text);

/// Which of the three above it is, that nobody has built; empty: none. A tenant's own of that name comes
/// first.
[[nodiscard]] std::string_view given_template(const TemplateName& name);

/// What a sandbox without limits has.
struct MachineSize {
    unsigned cpus = 1;
    unsigned memory_mb = 0;
    unsigned disk_mb = 0; ///< of throw-away disk: a quarter of the memory
};
[[nodiscard]] MachineSize machine_size();

} // namespace berth::e2b

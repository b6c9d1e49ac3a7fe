#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

/// Destinations of an allow list as text: a name, "*." and a name, an address, or a CIDR block.
namespace berth::policy {

/// The one spelling of a destination: lower case, shortest address form. Refuses what resolvers read
/// in different ways (numbers as names, "1.2.3", mapped addresses) and what is the whole internet.
[[nodiscard]] Result<std::string> canonical_host(std::string_view text);

/// An address or a block of them, not a name.
[[nodiscard]] bool is_address(std::string_view host);

/// Whether every destination `inner` means is one `outer` means; both canonical. "*.x.org" means the
/// names below x.org, not x.org itself; a name and an address never cover each other.
[[nodiscard]] bool host_covers(std::string_view outer, std::string_view inner);

} // namespace berth::policy

#pragma once

#include <cstdint>
#include <optional>

namespace berth::sys {

/// As many descriptors as this process may have: a server has some for each connection, command and sandbox,
/// and the usual soft limit is for programs that wait with select(2).
void raise_open_files() noexcept;

/// The soft limit before that, for a program that is started with our own rights. Nothing: it was not raised.
[[nodiscard]] std::optional<std::uint64_t> former_open_files() noexcept;

} // namespace berth::sys

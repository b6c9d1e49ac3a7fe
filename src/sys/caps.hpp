#pragma once

#include <linux/capability.h>

#include <cstdint>

namespace berth::sys {

constexpr std::uint64_t cap_bit(int cap) { return 1ull << cap; }

/// What root inside a sandbox keeps: enough for package managers, chown and su, nothing that
/// reaches beyond its own files and processes.
constexpr std::uint64_t kKeptCaps = cap_bit(CAP_CHOWN) | cap_bit(CAP_DAC_OVERRIDE) | cap_bit(CAP_FOWNER) |
                                    cap_bit(CAP_FSETID) | cap_bit(CAP_KILL) | cap_bit(CAP_SETGID) |
                                    cap_bit(CAP_SETUID) | cap_bit(CAP_NET_BIND_SERVICE);

/// True when the calling thread has this capability in its effective set.
[[nodiscard]] bool has_cap(int cap) noexcept;

} // namespace berth::sys

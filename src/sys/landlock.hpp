#pragma once

#include <cstdint>

namespace berth::sys::landlock {

/// The highest landlock ABI of the running kernel; 0 when there is none.
[[nodiscard]] int abi() noexcept;

// linux/landlock.h of Debian 12 ends at ABI 2; the rest is spelled out here.
constexpr std::uint64_t kExecute = 1u << 0;
constexpr std::uint64_t kWriteFile = 1u << 1;
constexpr std::uint64_t kReadFile = 1u << 2;
constexpr std::uint64_t kReadDir = 1u << 3;
constexpr std::uint64_t kMakeBlock = 1u << 11;
constexpr std::uint64_t kRefer = 1u << 13;    // ABI 2
constexpr std::uint64_t kTruncate = 1u << 14; // ABI 3
constexpr std::uint64_t kIoctlDev = 1u << 15; // ABI 5
constexpr std::uint64_t kBindTcp = 1u << 0;   // ABI 4
constexpr std::uint64_t kConnectTcp = 1u << 1;
constexpr std::uint64_t kScopeAbstractUnix = 1u << 0; // ABI 6
constexpr std::uint64_t kScopeSignal = 1u << 1;

/// Everything that reads, and everything that writes, as far as `abi` knows it.
[[nodiscard]] std::uint64_t reading() noexcept;
[[nodiscard]] std::uint64_t writing(int abi) noexcept;
/// Both scopes where the kernel has them, else 0.
[[nodiscard]] std::uint64_t scopes(int abi) noexcept;

} // namespace berth::sys::landlock

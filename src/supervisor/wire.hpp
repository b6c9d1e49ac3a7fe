#pragma once

#include <cstdint>

/// What the launcher of a command and its supervisor share: a memory file with the patterns, in which the
/// supervisor counts what it refused.
namespace berth::supervisor {

constexpr std::uint32_t kMagic = 0x32627267; // "grb2"
constexpr std::uint32_t kMaxBytes = 16u << 20;

/// Descriptors the program starts with.
constexpr int kSocket = 0; ///< the listener of the filter comes from here, in one message of one byte
constexpr int kConfig = 1;

struct Config {
    std::uint32_t magic = kMagic;
    std::uint32_t patterns = 0; ///< as many texts follow, each ended by a NUL
    std::uint32_t programs = 0; ///< and then as many paths: where the command may lie, if it is one alone
    std::uint32_t bytes = 0;    ///< of all that follows
    /// Nobody under the filter can be anybody else than these. Otherwise it is looked up for each call.
    std::uint32_t one_user = 0;
    std::uint32_t uid = 0;
    std::uint32_t gid = 0;
    /// One command of a sandbox is held, not the sandbox: its first program is `become` of ours.
    std::uint32_t one_command = 0;
    std::uint64_t refused = 0; ///< calls so far, because of a pattern
};

} // namespace berth::supervisor

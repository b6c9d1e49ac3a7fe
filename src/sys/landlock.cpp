#include "sys/landlock.hpp"

#include <sys/syscall.h>
#include <unistd.h>

namespace berth::sys::landlock {

int abi() noexcept
{
    constexpr unsigned kVersion = 1; // LANDLOCK_CREATE_RULESET_VERSION
    const long r = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, kVersion);
    return r < 0 ? 0 : static_cast<int>(r);
}

std::uint64_t reading() noexcept { return kExecute | kReadFile | kReadDir; }

std::uint64_t writing(int abi) noexcept
{
    constexpr std::uint64_t make_and_remove = 0x1ff0; // bits 4 to 12: remove and make of every kind
    std::uint64_t all = kWriteFile | make_and_remove;
    if (abi >= 2) all |= kRefer;
    if (abi >= 3) all |= kTruncate;
    return all;
}

std::uint64_t scopes(int abi) noexcept { return abi >= 6 ? kScopeAbstractUnix | kScopeSignal : 0; }

} // namespace berth::sys::landlock

#include "sys/open_files.hpp"

#include <sys/resource.h>

#include <atomic>

namespace berth::sys {

namespace {

constexpr std::uint64_t kNotRaised = ~std::uint64_t{0};
std::atomic<std::uint64_t> former{kNotRaised};

} // namespace

void raise_open_files() noexcept
{
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
    const auto before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    if (::setrlimit(RLIMIT_NOFILE, &limit) == 0) former = before;
}

std::optional<std::uint64_t> former_open_files() noexcept
{
    const std::uint64_t before = former;
    return before == kNotRaised ? std::nullopt : std::optional(before);
}

} // namespace berth::sys

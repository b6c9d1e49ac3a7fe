#include "base/brief.hpp"

#include <array>
#include <ctime>
#include <string_view>

#include <fmt/format.h>

namespace berth {

std::string rfc3339(WallTime time)
{
    using namespace std::chrono;
    const auto whole = floor<seconds>(time);
    const std::time_t count = whole.time_since_epoch().count();
    std::tm parts{};
    ::gmtime_r(&count, &parts);
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                       parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
                       duration_cast<milliseconds>(time - whole).count());
}

std::string brief(std::chrono::nanoseconds duration)
{
    using namespace std::chrono;
    if (duration <= nanoseconds::zero()) return "0s";
    if (duration < microseconds(10'000))
        return fmt::format("{:.1f}ms", static_cast<double>(duration.count()) / 1e6);
    if (duration < seconds(1)) return fmt::format("{}ms", duration_cast<milliseconds>(duration).count());
    if (duration < minutes(2)) return fmt::format("{}s", duration_cast<seconds>(duration).count());
    if (duration < hours(2)) return fmt::format("{}m", duration_cast<minutes>(duration).count());
    if (duration < days(2)) return fmt::format("{}h", duration_cast<hours>(duration).count());
    return fmt::format("{}d", duration_cast<days>(duration).count());
}

std::string brief(Bytes bytes)
{
    constexpr std::array<std::string_view, 5> names{"B", "KiB", "MiB", "GiB", "TiB"};
    if (bytes.count < 1024) return fmt::format("{} B", bytes.count);
    auto count = static_cast<double>(bytes.count);
    std::size_t unit = 0;
    while (count >= 1024 && unit + 1 < names.size()) {
        count /= 1024;
        ++unit;
    }
    return fmt::format("{:.1f} {}", count, names[unit]);
}

} // namespace berth

#include "base/log.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <ctime>

#include "base/json.hpp"
#include "base/strings.hpp"

namespace berth::log {

namespace {

std::atomic<Level> g_level{Level::Warn};
std::atomic<Format> g_format{Format::Text};

constexpr std::array<std::string_view, 5> kNames{"debug", "info", "warn", "error", "off"};

std::string utc_now()
{
    std::timespec now{};
    std::timespec_get(&now, TIME_UTC);
    std::tm parts{};
    ::gmtime_r(&now.tv_sec, &parts);
    return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                       parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, now.tv_nsec / 1'000'000);
}

} // namespace

Result<Level> parse_level(std::string_view text)
{
    for (std::size_t i = 0; i < kNames.size(); ++i)
        if (kNames[i] == text) return static_cast<Level>(i);
    return fail(Code::Invalid, "bad log level '{}': one of debug, info, warn, error, off",
                printable(text, 40));
}

Result<Format> parse_format(std::string_view text)
{
    if (text == "text") return Format::Text;
    if (text == "json") return Format::Json;
    return fail(Code::Invalid, "bad log format '{}': text or json", printable(text, 40));
}

void configure(Level level, Format format) noexcept
{
    g_level = level;
    g_format = format;
}

bool enabled(Level level) noexcept { return level >= g_level.load(std::memory_order_relaxed); }

std::string render(Format format, Level level, std::string_view message, std::initializer_list<Field> fields,
                   std::string_view time)
{
    const std::string_view name = kNames[static_cast<std::size_t>(level)];
    if (format == Format::Json) {
        json::Object line;
        line["time"] = time;
        line["level"] = name;
        line["message"] = message;
        for (const auto& field : fields) line[field.name] = field.value;
        return json::dump(line) + "\n";
    }
    std::string line = fmt::format("{} {:<5} {}", time, name, printable(message, 4000));
    for (const auto& field : fields) line += fmt::format(" {}={}", field.name, printable(field.value, 2000));
    return line + "\n";
}

void write(Level level, std::string_view message, std::initializer_list<Field> fields)
{
    const std::string line = render(g_format.load(), level, message, fields, utc_now());
    // Nobody to tell when stderr is gone.
    [[maybe_unused]] const auto n = ::write(STDERR_FILENO, line.data(), line.size());
}

} // namespace berth::log

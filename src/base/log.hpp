#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "base/result.hpp"

/// Structured log to stderr: one line an event, as text or as JSON. A value never holds a
/// secret; the caller is responsible for that, the writer only escapes.
namespace berth::log {

enum class Level { Debug, Info, Warn, Error, Off };
enum class Format { Text, Json };

struct Field {
    std::string_view name;
    std::string value;
};

[[nodiscard]] Result<Level> parse_level(std::string_view text);
[[nodiscard]] Result<Format> parse_format(std::string_view text);

/// Called once at start. Until then: warnings and errors, as text.
void configure(Level level, Format format) noexcept;
[[nodiscard]] bool enabled(Level level) noexcept;

/// Writes one line with a single write(2), so lines of several processes do not mix.
void write(Level level, std::string_view message, std::initializer_list<Field> fields = {});

inline void debug(std::string_view message, std::initializer_list<Field> fields = {})
{
    if (enabled(Level::Debug)) write(Level::Debug, message, fields);
}
inline void info(std::string_view message, std::initializer_list<Field> fields = {})
{
    if (enabled(Level::Info)) write(Level::Info, message, fields);
}
inline void warn(std::string_view message, std::initializer_list<Field> fields = {})
{
    if (enabled(Level::Warn)) write(Level::Warn, message, fields);
}
inline void error(std::string_view message, std::initializer_list<Field> fields = {})
{
    if (enabled(Level::Error)) write(Level::Error, message, fields);
}

/// The line `write` would emit; separate so that a test can look at it.
[[nodiscard]] std::string render(Format format, Level level, std::string_view message,
                                 std::initializer_list<Field> fields, std::string_view time);

} // namespace berth::log

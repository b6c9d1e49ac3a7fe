#include "cli/progress.hpp"

#include <unistd.h>

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "base/strings.hpp"
#include "cli/app.hpp"

namespace berth::cli {

namespace {

using namespace std::chrono_literals;

constexpr auto kFirst = 500ms; // what is done sooner needs no words
constexpr auto kInterval = 100ms;
constexpr int kWidth = 24;

/// "12.3 MiB": three digits are enough to watch.
std::string rough(double bytes)
{
    const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    std::size_t unit = 0;
    for (; bytes >= 1000 && unit + 1 < std::size(units); ++unit) bytes /= 1024;
    return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, units[unit]);
}

} // namespace

Progress::Progress() : next_(begun_ + kFirst), wanted_(talkative()) {}

Progress::~Progress()
{
    if (shown_) [[maybe_unused]]
        const auto n = ::write(STDERR_FILENO, "\r\x1b[K", 4);
}

std::chrono::nanoseconds Progress::elapsed() const { return Clock::now() - begun_; }

void Progress::add(std::uint64_t bytes)
{
    bytes_ += bytes;
    if (!wanted_ || Clock::now() < next_) return;
    next_ = Clock::now() + kInterval;
    show();
}

void Progress::tell(std::string_view what, std::uint64_t have, std::uint64_t of)
{
    if (!wanted_ || Clock::now() < next_) return;
    next_ = Clock::now() + kInterval;
    std::string line = "\r" + printable(what, 50);
    if (of > 0)
        line += fmt::format("  {} of {}", rough(static_cast<double>(have)), rough(static_cast<double>(of)));
    line += "\x1b[K";
    [[maybe_unused]] const auto n = ::write(STDERR_FILENO, line.data(), line.size());
    shown_ = true;
}

void Progress::show()
{
    const double seconds = std::chrono::duration<double>(elapsed()).count();
    const std::string rate = rough(static_cast<double>(bytes_) / seconds);
    std::string line = "\r";
    if (total_ > 0) {
        const double part = std::min(1.0, static_cast<double>(bytes_) / static_cast<double>(total_));
        const auto full = static_cast<std::size_t>(part * kWidth);
        line += fmt::format("[{:<{}}] {:3.0f}%  ", std::string(full, '#'), kWidth, part * 100);
    }
    line += fmt::format("{}  {}/s\x1b[K", rough(static_cast<double>(bytes_)), rate);
    [[maybe_unused]] const auto n = ::write(STDERR_FILENO, line.data(), line.size());
    shown_ = true;
}

} // namespace berth::cli

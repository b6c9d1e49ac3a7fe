#include "server/e2b/build_log.hpp"

#include "base/strings.hpp"

namespace berth::e2b {

namespace {

constexpr std::size_t kMostLines = 20'000;
constexpr std::size_t kLongestLine = 2048;

} // namespace

void BuildLog::put(BuildLine line)
{
    if (build_->log_full && line.level != "error") return;
    if (build_->log.size() == kMostLines && !build_->log_full) {
        build_->log_full = true;
        line.message = "more is printed than a build's log holds: the rest is left out";
        line.level = "warn";
    }
    build_->log.push_back(std::move(line));
}

void BuildLog::begin(std::string label, std::string step)
{
    label_ = std::move(label);
    step_ = std::move(step);
}

void BuildLog::add(std::string level, std::string_view message, std::string step)
{
    std::string text = label_.empty() ? std::string(message) : fmt::format("{} {}", label_, message);
    put({.time = system_clock().now(),
         .level = std::move(level),
         .message = printable_utf8(text),
         .step = step.empty() ? step_ : std::move(step)});
}

void BuildLog::line(bool out, std::string_view text)
{
    if (text.ends_with('\r')) text.remove_suffix(1);
    add(out ? "info" : "warn",
        fmt::format("[{}]: {}", out ? "stdout" : "stderr", printable_utf8(text.substr(0, kLongestLine))));
}

void BuildLog::print(bool out, std::string_view bytes)
{
    auto& pending = pending_[out ? 0 : 1];
    while (!bytes.empty()) {
        const auto end = bytes.find('\n');
        pending += bytes.substr(0, std::min(end, kLongestLine));
        if (end == std::string_view::npos) {
            // A line without an end is cut; what is beyond it is not kept.
            if (pending.size() > kLongestLine) pending.resize(kLongestLine);
            return;
        }
        line(out, pending);
        pending.clear();
        bytes.remove_prefix(end + 1);
    }
}

void BuildLog::flush()
{
    for (const bool out : {true, false}) {
        auto& pending = pending_[out ? 0 : 1];
        if (!pending.empty()) line(out, pending);
        pending.clear();
    }
}

} // namespace berth::e2b

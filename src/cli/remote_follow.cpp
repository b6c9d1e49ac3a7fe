#include <unistd.h>

#include <algorithm>
#include <thread>

#include "base/encoding.hpp"
#include "base/io.hpp"
#include "base/json_reader.hpp"
#include "base/strings.hpp"
#include "cli/remote.hpp"

namespace berth::cli::remote {

namespace {

using namespace std::chrono_literals;

constexpr auto kBreath = 200ms;
constexpr auto kSilence = 60s; // a stream tells every 15 s that it lives
constexpr auto kMoment = 1s;
constexpr int kMostBreaks = 20; // one after the other, without an event between
constexpr std::size_t kLargestEvent = std::size_t{16} << 20;

} // namespace

Status EventReader::feed(std::string_view bytes)
{
    pending_ += bytes;
    if (pending_.size() > kLargestEvent) return fail(Code::Invalid, "an event of the server has no end");
    for (std::size_t end = 0; (end = pending_.find("\n\n")) != std::string::npos;) {
        const auto block = pending_.substr(0, end);
        pending_.erase(0, end + 2);
        for (const auto& line : split(block, '\n')) {
            if (!line.starts_with("data: ")) continue;
            BERTH_TRY(const auto document, json::parse(std::string_view(line).substr(6)));
            if (document.is_object()) BERTH_CHECK(on_event_(document.get_object()));
        }
    }
    return {};
}

OnEvent pass_on(bool json)
{
    return [json](const json::Object& event) -> Status {
        if (json) return write_all(STDOUT_FILENO, json::dump(event) + "\n");
        const auto kind = text_of(event, "event");
        if (kind != "stdout" && kind != "stderr" && kind != "pty") return {};
        const auto bytes = base64_decode(text_of(event, "data"));
        if (!bytes) return fail(Code::Unavailable, "the server tells bytes that are none");
        return write_all(kind == "stderr" ? STDERR_FILENO : STDOUT_FILENO, *bytes);
    };
}

Result<Followed> follow(Server& server, const FollowWish& wish, const OnEvent& on_event)
{
    Followed out{.after = wish.after};
    Status mine; // a failure that is not the connection's
    bool moved = false;
    const auto take = [&](const json::Object& event) -> Status {
        const auto* const number = event.if_contains("seq");
        if (number == nullptr || !number->is_int64()) {
            return mine = std::unexpected(
                       told_error(event, {.code = Code::Unavailable,
                                          .message = "the server tells an event without a number"}));
        }
        out.after = static_cast<std::uint64_t>(number->get_int64());
        moved = true;
        const auto kind = text_of(event, "event");
        if (const auto* const code = event.if_contains("code");
            kind == "exit" && code != nullptr && code->is_int64())
            out.code = static_cast<int>(code->get_int64());
        if (const auto* const signal = event.if_contains("signal");
            kind == "exit" && signal != nullptr && signal->is_int64()) {
            out.signal = static_cast<int>(signal->get_int64());
            out.code = 128 + *out.signal;
        }
        if (const auto* const late = event.if_contains("timed_out");
            kind == "exit" && late != nullptr && late->is_bool())
            out.timed_out = late->get_bool();
        out.closed = out.closed || kind == "closed";
        return mine = on_event(event);
    };
    for (int breaks = 0; !out.closed;) {
        EventReader reader(take);
        moved = false;
        const auto target =
            out.after ? fmt::format("{}/events?after={}", wish.exec, *out.after) : wish.exec + "/events";
        const auto read = server.stream(
            target, [&](std::string_view bytes) { return reader.feed(bytes); },
            wish.wait ? std::chrono::milliseconds(kSilence) : std::chrono::milliseconds(kMoment));
        if (!mine) return std::unexpected(mine.error());
        if (out.closed) break;
        const bool refused =
            !read && read.error().code != Code::Unavailable && read.error().code != Code::DeadlineExceeded;
        if (refused) return std::unexpected(read.error());
        if (!wish.wait && (moved || !read || out.after)) break;
        breaks = moved ? 0 : breaks + 1;
        if (breaks > kMostBreaks) {
            if (!read) return std::unexpected(read.error());
            break; // it ends again and again, and says nothing
        }
        std::this_thread::sleep_for(kBreath * std::max(breaks, 1));
    }
    return out;
}

} // namespace berth::cli::remote

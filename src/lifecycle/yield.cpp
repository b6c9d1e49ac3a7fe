#include "lifecycle/yield.hpp"

#include <algorithm>
#include <ctime>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>

#include "core/exec_reader.hpp"
#include "core/write_id.hpp"
#include "lifecycle/head_tail.hpp"
#include "lifecycle/refusal.hpp"
#include "lifecycle/told_end.hpp"

namespace berth {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t kBytesPerToken = 4;
constexpr auto kShortest = 250ms;
constexpr auto kLongest = 30s;
constexpr auto kDrained = 100ms; // after the exit a grandchild may hold the streams; silence is enough
constexpr auto kFullInterval = 20ms;

SteadyTime now() { return system_clock().steady(); }

/// Write ids grow with the time since the machine started, so that whoever writes next, from whatever
/// process, has a larger one.
std::uint64_t next_write_id()
{
    timespec t{};
    ::clock_gettime(CLOCK_BOOTTIME, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(t.tv_nsec);
}

/// The bytes that were taken until `until`.
Task<Result<std::size_t>> type(Backend& backend, SandboxHandle sandbox, std::string exec, YieldInput input,
                               SteadyTime until)
{
    boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor);
    std::uint64_t part = input.write.value_or(0) << kPartBits;
    const auto id = [&] { return input.write ? part++ : next_write_id(); };
    std::size_t taken = 0;
    while (!input.bytes.empty()) {
        BERTH_CO_TRY(const auto some, co_await backend.write_input(sandbox, exec, id(), input.bytes));
        input.bytes.erase(0, some);
        taken += some;
        if (input.bytes.empty()) break;
        if (now() >= until) co_return taken;
        timer.expires_after(kFullInterval);
        co_await timer.async_wait(boost::asio::use_awaitable);
    }
    if (input.close) BERTH_CO_CHECK(co_await backend.close_input(sandbox, exec, id()));
    co_return taken;
}

/// A turn is one text: without it the two sides of a gap would read as one line.
std::string gap_line(const ExecEvent& gap)
{
    if (gap.gap_bytes == 0) return "\n[berth: output may be missing here]\n"; // nobody was connected
    return fmt::format("\n[berth: {} bytes of output are missing here]\n", gap.gap_bytes);
}

Task<Result<Yielded>> collect_and_finish(Lifecycle& lifecycle, Backend& backend, SandboxRecord sandbox,
                                         std::string exec, std::uint64_t from, std::chrono::nanoseconds time,
                                         YieldWish wish, std::optional<ExitStatus> ended)
{
    const auto tokens = std::min(wish.max_tokens.value_or(kMostTokens), kMostTokens);
    BERTH_CO_TRY(auto answer, co_await collect_output(backend, Lifecycle::handle(sandbox), exec, from, time,
                                                      tokens, std::move(ended)));
    if (answer.status) {
        answer.timed_out = co_await timed_out(lifecycle, sandbox, exec, *answer.status);
        BERTH_CO_CHECK(co_await lifecycle.finish_exec(sandbox, exec, *answer.status, answer.timed_out));
    }
    co_return answer;
}

} // namespace

std::chrono::nanoseconds yield_time(YieldFor what, std::optional<std::chrono::nanoseconds> wish)
{
    const std::chrono::nanoseconds usual = what == YieldFor::Start   ? 10s
                                           : what == YieldFor::Write ? 250ms
                                                                     : 5s;
    const std::chrono::nanoseconds least = what == YieldFor::Poll ? 5s : kShortest;
    return std::clamp<std::chrono::nanoseconds>(wish.value_or(usual), least, kLongest);
}

Task<Result<Yielded>> collect_output(Backend& backend, SandboxHandle sandbox, std::string exec,
                                     std::uint64_t from, std::chrono::nanoseconds time,
                                     std::size_t max_tokens, std::optional<ExitStatus> ended)
{
    const auto begun = now();
    const auto deadline = begun + time;
    Yielded answer{.exec = exec, .status = std::move(ended)};
    HeadTail output(std::max<std::size_t>(max_tokens, 1) * kBytesPerToken);
    ExecReader reader(backend, std::move(sandbox), std::move(exec), from);
    // At least one look, also when the time is over at once. What prints without end is left at the deadline.
    for (bool first = true; !reader.closed() && (first || now() < deadline); first = false) {
        const auto until = answer.status ? std::min(deadline, now() + kDrained) : deadline;
        BERTH_CO_TRY(const auto events, co_await reader.next(until));
        for (const auto& event : events) {
            output.add(event.bytes);
            if (event.kind == ExecEvent::Kind::Gap) output.add(gap_line(event));
            answer.missing += event.gap_bytes;
            if (event.kind == ExecEvent::Kind::Exit) answer.status = event.status;
        }
        if (events.empty() && answer.status) break;
    }
    answer.output = output.text();
    if (output.cut()) answer.original_tokens = (output.bytes() + kBytesPerToken - 1) / kBytesPerToken;
    answer.next = reader.position();
    answer.waited = now() - begun;
    co_return answer;
}

Task<Result<Yielded>> yield_start(Lifecycle& lifecycle, SandboxRecord sandbox, ExecSpec spec, YieldWish wish)
{
    BERTH_CO_TRY(auto* const backend, co_await lifecycle.backend(sandbox.backend));
    BERTH_CO_CHECK(co_await lifecycle.exec(sandbox, spec));
    co_return co_await collect_and_finish(lifecycle, *backend, std::move(sandbox), std::move(spec.id), 0,
                                          yield_time(YieldFor::Start, wish.time), wish, std::nullopt);
}

Task<Result<Yielded>> yield_write(Lifecycle& lifecycle, SandboxRecord sandbox, std::string exec,
                                  std::uint64_t next, YieldInput input, YieldWish wish)
{
    BERTH_CO_TRY(auto* const backend, co_await lifecycle.backend(sandbox.backend));
    const auto handle = Lifecycle::handle(sandbox);
    const bool asked = input.asked();
    const auto time = yield_time(asked ? YieldFor::Write : YieldFor::Poll, wish.time);
    std::size_t taken = 0;
    BERTH_CO_TRY(auto ended, co_await backend->wait(handle, exec, SteadyTime{}));
    if (asked && !ended) {
        auto typed = co_await type(*backend, handle, exec, std::move(input), now() + time);
        if (typed) {
            taken = *typed;
        } else { // perhaps because it has ended meanwhile
            BERTH_CO_TRY(ended, co_await backend->wait(handle, exec, SteadyTime{}));
            if (!ended) co_return std::unexpected(refusal(std::move(typed).error(), exec));
        }
    }
    std::optional<ExitStatus> status;
    if (ended) status = ended->status;
    BERTH_CO_TRY(auto answer, co_await collect_and_finish(lifecycle, *backend, std::move(sandbox),
                                                          std::move(exec), next, time, wish, status));
    if (asked) answer.taken = taken;
    co_return answer;
}

} // namespace berth

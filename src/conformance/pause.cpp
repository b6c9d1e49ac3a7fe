// Pausing freezes the processes with all they have in memory.

#include <thread>

#include "conformance/check.hpp"
#include "conformance/context.hpp"
#include "conformance/side_by_side.hpp"

namespace berth::conformance {

namespace {

constexpr std::string_view kGroup = "pause";

constexpr const char* kTicking = "i=0; while [ $i -lt 100000 ]; do echo $i; i=$((i+1)); sleep 0.01; done";

Status pause(Context& c, const SandboxHandle& sandbox)
{
    return step("pausing it", c.await(c.backend().pause(sandbox)));
}

Status resume(Context& c, const SandboxHandle& sandbox)
{
    return step("resuming it", c.await(c.backend().resume(sandbox)));
}

Status in_state(Context& c, const SandboxHandle& sandbox, State want)
{
    BERTH_TRY(const auto found, c.await(c.backend().inspect(sandbox)));
    return expect(found.state == want, "its state is {}, not {}", to_string(found.state), to_string(want));
}

/// Everything that is in the log now.
Result<std::string> so_far(Context& c, const SandboxHandle& sandbox, const std::string& exec)
{
    std::string out;
    for (std::uint64_t from = 0;;) {
        BERTH_TRY(const auto some, c.await(c.backend().read_events(sandbox, exec, from, Context::in(0s))));
        if (some.empty()) return out;
        for (const auto& event : some) out += event.bytes;
        from = some.back().sequence + 1;
    }
}

Status keeps_memory(Context& c)
{
    BERTH_TRY(const auto sandbox, c.own());
    auto exec = Context::shell("x=remembered; read -r line; echo $x $line");
    exec.input = ExecSpec::Stdin::Open;
    BERTH_CHECK(c.start(sandbox, exec));
    BERTH_CHECK(pause(c, sandbox));
    BERTH_CHECK(in_state(c, sandbox, State::Paused));
    BERTH_CHECK(resume(c, sandbox));
    BERTH_CHECK(in_state(c, sandbox, State::Running));
    BERTH_TRY([[maybe_unused]] const auto n,
              c.await(c.backend().write_input(sandbox, exec.id, 1, "and went on\n")));
    std::uint64_t from = 0;
    BERTH_TRY(const auto said, c.read_until(sandbox, exec.id, "\n", from));
    return same("what it had in memory", said, "remembered and went on\n");
}

Status stands_still(Context& c)
{
    BERTH_TRY(const auto sandbox, c.own());
    const auto exec = Context::shell(kTicking);
    BERTH_CHECK(c.start(sandbox, exec));
    std::uint64_t from = 0;
    BERTH_TRY([[maybe_unused]] const auto ticks, c.read_until(sandbox, exec.id, "3\n", from));
    BERTH_CHECK(pause(c, sandbox));
    BERTH_TRY(const auto before, so_far(c, sandbox, exec.id));
    std::this_thread::sleep_for(300ms);
    BERTH_TRY(const auto after, so_far(c, sandbox, exec.id));
    BERTH_CHECK(same("what it said meanwhile", after, before));
    BERTH_CHECK(resume(c, sandbox));
    return c.eventually("that it goes on", [&]() -> Result<bool> {
        BERTH_TRY(const auto now, so_far(c, sandbox, exec.id));
        return now.size() > after.size();
    });
}

Status rapidly(Context& c)
{
    BERTH_TRY(const auto sandbox, c.own());
    const auto exec = Context::shell("i=0; while [ $i -lt 300 ]; do echo $i; i=$((i+1)); done; echo end");
    BERTH_CHECK(c.start(sandbox, exec));
    for (int i = 0; i < 20; ++i) {
        BERTH_CHECK(pause(c, sandbox));
        BERTH_CHECK(resume(c, sandbox));
    }
    BERTH_TRY(const auto events, c.events(c.backend(), sandbox, exec.id));
    std::string out, want;
    for (const auto& event : events) out += event.bytes;
    for (int i = 0; i < 300; ++i) want += fmt::format("{}\n", i);
    BERTH_CHECK(same("its output", out, want + "end\n"));
    BERTH_TRY(const auto path, c.at_home("file"));
    BERTH_CHECK(c.write(sandbox, path, "intact"));
    BERTH_TRY(const auto bytes, c.read(sandbox, path));
    return same("a file", bytes, "intact");
}

Status refuses_execs(Context& c)
{
    BERTH_TRY(const auto sandbox, c.own());
    BERTH_CHECK(pause(c, sandbox));
    BERTH_CHECK(refused("a command in a paused one",
                        c.await(c.backend().exec(sandbox, Context::shell("true"))), Code::Conflict));
    BERTH_CHECK(resume(c, sandbox));
    BERTH_TRY(const auto said, c.output(sandbox, "echo again"));
    return same("a command afterwards", said, "again\n");
}

Status idempotent(Context& c)
{
    BERTH_TRY(const auto sandbox, c.own());
    BERTH_CHECK(resume(c, sandbox));
    BERTH_CHECK(pause(c, sandbox));
    BERTH_CHECK(pause(c, sandbox));
    BERTH_CHECK(resume(c, sandbox));
    return resume(c, sandbox);
}

Status by_another_process(Context& c)
{
    BERTH_TRY(const auto sandbox, c.own());
    BERTH_CHECK(pause(c, sandbox));
    BERTH_TRY(const auto other, c.reopen());
    BERTH_TRY(const auto found, c.await(other->inspect(sandbox)));
    BERTH_CHECK(same("the state another process sees", found.state, State::Paused));
    BERTH_CHECK(step("resuming it", c.await(other->resume(sandbox))));
    BERTH_TRY(const auto said, c.output(sandbox, "echo again"));
    return same("a command afterwards", said, "again\n");
}

Status time_does_not_count(Context& c)
{
    BERTH_TRY(const auto sandbox, c.own());
    auto exec = Context::shell("i=0; while [ $i -lt 40 ]; do sleep 0.01; i=$((i+1)); done; exit 4");
    exec.timeout = 3s;
    BERTH_CHECK(c.start(sandbox, exec));
    BERTH_CHECK(pause(c, sandbox));
    std::vector<Task<Result<RunOutcome>>> tasks;
    tasks.push_back(c.backend().follow(sandbox, exec, {}));
    const auto later = [&]() -> Task<Result<RunOutcome>> {
        boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor);
        timer.expires_after(4s);
        co_await timer.async_wait(boost::asio::use_awaitable);
        BERTH_CO_CHECK(co_await c.backend().resume(sandbox));
        co_return RunOutcome{};
    };
    tasks.push_back(later());
    const auto answers = await_all(c, std::move(tasks));
    BERTH_CHECK(expect(answers[0].has_value(), "following it failed"));
    BERTH_CHECK(expect(!answers[0]->timed_out, "the pause counted as time of the command"));
    return expect(answers[0]->status.code() == 4, "it ended with {}", to_string(answers[0]->status));
}

Status is_measured(Context& c)
{
    BERTH_TRY(const auto sandbox, c.own());
    BERTH_CHECK(pause(c, sandbox));
    BERTH_CHECK(c.eventually("that the pause is counted", [&]() -> Result<bool> {
        BERTH_TRY(const auto found, c.await(c.backend().inspect(sandbox)));
        return found.paused >= 50ms;
    }));
    BERTH_CHECK(resume(c, sandbox));
    BERTH_TRY(const auto found, c.await(c.backend().inspect(sandbox)));
    return expect(found.paused >= 50ms && found.paused < 60s, "{} ms are told", found.paused.count());
}

Status paused_is_destroyed(Context& c)
{
    BERTH_TRY(const auto sandbox, c.own());
    BERTH_CHECK(c.start(sandbox, Context::shell("sleep 300")));
    BERTH_CHECK(pause(c, sandbox));
    BERTH_CHECK(step("destroying it", c.await(c.backend().destroy(sandbox))));
    BERTH_TRY(const auto found, c.await(c.backend().inspect(sandbox)));
    return same("its health", found.health, Health::Gone);
}

} // namespace

std::vector<Check> pause_checks()
{
    const std::vector<Need> pauses{Operation::Pause};
    return {
        {kGroup, "memory is kept", pauses, keeps_memory},
        {kGroup, "nothing moves meanwhile", pauses, stands_still},
        {kGroup, "pausing and resuming in quick turn harms nothing", pauses, rapidly},
        {kGroup, "a paused one runs no command", pauses, refuses_execs},
        {kGroup, "paused and resumed already are success", pauses, idempotent},
        {kGroup, "another process sees it and ends it", pauses, by_another_process},
        {kGroup, "the time of a pause does not count for a timeout", pauses, time_does_not_count},
        {kGroup, "the time of pauses is told", pauses, is_measured},
        {kGroup, "a paused one is destroyed", pauses, paused_is_destroyed},
    };
}

} // namespace berth::conformance

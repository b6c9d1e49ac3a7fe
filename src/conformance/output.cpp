// What a command prints is told byte for byte, each stream in its own order.

#include "conformance/check.hpp"
#include "conformance/context.hpp"
#include "conformance/side_by_side.hpp"

namespace berth::conformance {

namespace {

constexpr std::string_view kGroup = "output";

/// A script of the shared sandbox and what it must print.
Check prints(std::string name, std::string script, std::string out, std::string err = {})
{
    const auto run = [=](Context& c) -> Status {
        BERTH_TRY(const auto ran, c.sh(script));
        BERTH_CHECK(exited(ran, 0));
        BERTH_CHECK(same("standard output", ran.out, out));
        return same("standard error", ran.err, err);
    };
    return {kGroup, std::move(name), {}, run};
}

std::string all_bytes()
{
    std::string out;
    for (int i = 0; i < 256; ++i) out += static_cast<char>(i);
    return out;
}

std::string numbered(std::string_view word, int count)
{
    std::string out;
    for (int i = 0; i < count; ++i) out += fmt::format("{} {}\n", word, i);
    return out;
}

constexpr const char* kCounting = "i=0; while [ $i -lt 2000 ]; do echo out $i; i=$((i+1)); done";
constexpr const char* kBothCounting =
    "i=0; while [ $i -lt 1000 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done";

Status ten_megabytes(Context& c)
{
    constexpr std::size_t kSize = 10 << 20;
    BERTH_TRY(const auto ran, c.sh(fmt::format("echo begin; head -c {} /dev/zero; echo end", kSize)));
    BERTH_CHECK(exited(ran, 0));
    return same("the output", ran.out, "begin\n" + std::string(kSize, '\0') + "end\n");
}

Status many_at_once(Context& c)
{
    constexpr int kCount = 20;
    BERTH_TRY(const auto sandbox, c.shared());
    std::vector<ExecSpec> specs;
    std::vector<Task<Result<RunOutcome>>> tasks;
    std::vector<std::string> outs(kCount);
    const auto one = [&](ExecSpec exec, std::string& out) -> Task<Result<RunOutcome>> {
        BERTH_CO_CHECK(co_await c.backend().exec(sandbox, exec));
        RunStreams streams;
        streams.on_event = [&](const ExecEvent& event) { out += event.bytes; };
        co_return co_await c.backend().follow(sandbox, exec, streams);
    };
    for (int i = 0; i < kCount; ++i) {
        auto exec = Context::shell(fmt::format("echo {0}; sleep 0.1; echo {0} again; exit {0}", i));
        exec.timeout = 30s;
        tasks.push_back(one(exec, outs[i]));
    }
    const auto outcomes = await_all(c, std::move(tasks));
    for (int i = 0; i < kCount; ++i) {
        BERTH_CHECK(expect(outcomes[i].has_value(), "exec {} failed: {}", i,
                           outcomes[i] ? "" : outcomes[i].error().line()));
        BERTH_CHECK(same("the output of one of them", outs[i], fmt::format("{0}\n{0} again\n", i)));
        BERTH_CHECK(same("an exit code", outcomes[i]->status.code().value_or(-1), i));
    }
    return {};
}

Status well_ordered(Context& c)
{
    BERTH_TRY(const auto ran, c.sh("echo a; echo b >&2; exit 3"));
    const auto& events = ran.events;
    BERTH_CHECK(expect(events.size() >= 5, "only {} events", events.size()));
    BERTH_CHECK(same("the first kind of event", events.front().kind, ExecEvent::Kind::Start));
    BERTH_CHECK(same("the last kind of event", events.back().kind, ExecEvent::Kind::Closed));
    int exits = 0;
    for (std::size_t i = 1; i < events.size(); ++i) {
        BERTH_CHECK(expect(events[i].sequence > events[i - 1].sequence, "event {} follows event {}",
                           events[i].sequence, events[i - 1].sequence));
        exits += events[i].kind == ExecEvent::Kind::Exit ? 1 : 0;
    }
    return same("the number of exits told", exits, 1);
}

Status at_the_right_time(Context& c)
{
    const auto before = system_clock().now() - 2s;
    BERTH_TRY(const auto ran, c.sh("echo a"));
    const auto after = system_clock().now() + 2s;
    for (const auto& event : ran.events)
        BERTH_CHECK(expect(event.time > before && event.time < after, "event {} has a time of another day",
                           event.sequence));
    return {};
}

} // namespace

std::vector<Check> output_checks()
{
    return {
        prints("nothing is nothing", ":", ""),
        prints("a last line without its end stays so", "printf abc", "abc"),
        prints("the two streams are told apart", "echo out; echo err >&2", "out\n", "err\n"),
        prints("every byte arrives",
               "i=0; while [ $i -lt 256 ]; do printf \"\\\\$(printf %03o $i)\"; i=$((i+1)); done",
               all_bytes()),
        prints("bytes that are no UTF-8 stay as they are", "printf '\\377\\200a\\303'",
               "\xff\x80"
               "a\xc3"),
        prints(
            "a character written in two pieces is not damaged",
            "printf '\\303'; sleep 0.1; printf '\\244'; printf '\\360\\237'; sleep 0.1; printf '\\232\\200'",
            "ä🚀"),
        prints("lines keep their order", kCounting, numbered("out", 2000)),
        prints("each of two streams keeps its order", kBothCounting, numbered("out", 1000),
               numbered("err", 1000)),
        prints("a line of a megabyte is one line", "head -c 1048576 /dev/zero | tr '\\0' x",
               std::string(1 << 20, 'x')),
        prints("standard error may be large", "head -c 300000 /dev/zero | tr '\\0' e >&2", "",
               std::string(300'000, 'e')),
        prints("a command may close its streams before it ends", "exec >&- 2>&-; sleep 0.1; exit 0", ""),
        {kGroup, "ten megabytes arrive", {}, ten_megabytes},
        {kGroup, "twenty commands at once do not mix", {}, many_at_once},
        {kGroup, "events begin with a start, end with a close and have one exit", {}, well_ordered},
        {kGroup, "events carry the time they happened", {}, at_the_right_time},
    };
}

} // namespace berth::conformance

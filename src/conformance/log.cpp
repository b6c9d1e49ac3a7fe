// The log of an exec: numbered events that any process reads from any place, as often as it likes, and that
// are bounded without a lie.

#include "conformance/check.hpp"
#include "conformance/context.hpp"
#include "conformance/side_by_side.hpp"

namespace berth::conformance {

namespace {

constexpr std::string_view kGroup = "log";

using Kind = ExecEvent::Kind;

constexpr const char* kChatty =
    "i=0; while [ $i -lt 300 ]; do echo line $i; echo err $i >&2; i=$((i+1)); done; "
    "exit 5";

bool equal(const ExecEvent& a, const ExecEvent& b)
{
    return a.sequence == b.sequence && a.kind == b.kind && a.bytes == b.bytes && a.gap_bytes == b.gap_bytes &&
           a.status == b.status;
}

/// The same bytes of each stream and the same end, however they are cut into events.
struct Streams {
    std::string out;
    std::string err;
    ExitStatus status;
    explicit Streams(const std::vector<ExecEvent>& events)
    {
        for (const auto& event : events) {
            if (event.kind == Kind::Exit) status = event.status;
            (event.kind == Kind::Stderr ? err : out) += event.bytes;
        }
    }
    [[nodiscard]] Status equals(const Streams& other) const
    {
        BERTH_CHECK(same("standard output", out, other.out));
        BERTH_CHECK(same("standard error", err, other.err));
        return expect(status == other.status, "the ends differ: {} and {}", to_string(status),
                      to_string(other.status));
    }
};

struct Logged {
    SandboxHandle sandbox;
    std::string exec;
    std::vector<ExecEvent> events;
};

/// A command that has ended, and its log.
Result<Logged> logged(Context& c, const std::string& script = kChatty)
{
    Logged out;
    BERTH_TRY(out.sandbox, c.shared());
    const auto exec = Context::shell(script);
    out.exec = exec.id;
    BERTH_CHECK(c.start(out.sandbox, exec));
    BERTH_TRY(out.events, c.events(c.backend(), out.sandbox, out.exec));
    return out;
}

Status read_again(Context& c)
{
    BERTH_TRY(const auto log, logged(c));
    BERTH_TRY(const auto again, c.events(c.backend(), log.sandbox, log.exec));
    BERTH_TRY(const auto third, c.events(c.backend(), log.sandbox, log.exec));
    BERTH_CHECK(same("the number of events", third.size(), again.size()));
    for (std::size_t i = 0; i < again.size(); ++i)
        BERTH_CHECK(expect(equal(again[i], third[i]), "event {} differs", again[i].sequence));
    return Streams(again).equals(Streams(log.events));
}

Status read_from_the_middle(Context& c)
{
    BERTH_TRY(const auto log, logged(c));
    BERTH_TRY(const auto all, c.events(c.backend(), log.sandbox, log.exec));
    for (const std::size_t part : {std::size_t{1}, all.size() / 3, all.size() / 2, all.size() - 1}) {
        const auto from = all[part - 1].sequence + 1;
        BERTH_TRY(const auto rest, c.events(c.backend(), log.sandbox, log.exec, from));
        BERTH_CHECK(expect(rest.front().sequence >= from, "event {} was read before", rest.front().sequence));
        const std::vector expected(all.begin() + static_cast<std::ptrdiff_t>(part), all.end());
        BERTH_CHECK(Streams(rest).equals(Streams(expected)));
    }
    return {};
}

Status two_followers(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    auto exec = Context::shell("i=0; while [ $i -lt 100 ]; do echo $i; sleep 0.005; i=$((i+1)); done");
    exec.timeout = 30s;
    BERTH_CHECK(c.start(sandbox, exec));
    std::vector<std::string> outs(2);
    std::vector<Task<Result<RunOutcome>>> tasks;
    for (auto& out : outs) {
        RunStreams streams;
        streams.on_event = [&](const ExecEvent& event) { out += event.bytes; };
        tasks.push_back(c.backend().follow(sandbox, exec, std::move(streams)));
    }
    for (const auto& outcome : await_all(c, std::move(tasks)))
        BERTH_CHECK(expect(outcome && outcome->status.success(), "a follower saw no success"));
    BERTH_CHECK(expect(outs[0].ends_with("99\n"), "a follower missed the end"));
    return same("what the second saw", outs[1], outs[0]);
}

Status another_process(Context& c)
{
    BERTH_TRY(const auto log, logged(c));
    BERTH_TRY(const auto other, c.reopen());
    BERTH_TRY(const auto seen, c.events(*other, log.sandbox, log.exec));
    return Streams(seen).equals(Streams(log.events));
}

Status comes_back(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    auto exec = Context::shell("i=0; while [ $i -lt 60 ]; do echo $i; sleep 0.005; i=$((i+1)); done");
    BERTH_CHECK(c.start(sandbox, exec));
    std::string out;
    bool closed = false;
    const auto until = Context::in(30s);
    for (std::uint64_t from = 0; !closed && system_clock().steady() < until;) {
        BERTH_TRY(const auto reader, c.reopen()); // each knows nothing but a number
        BERTH_TRY(const auto some, c.await(reader->read_events(sandbox, exec.id, from, until)));
        for (const auto& event : some) {
            out += event.bytes;
            from = event.sequence + 1;
            closed = closed || event.kind == Kind::Closed;
        }
    }
    std::string want;
    for (int i = 0; i < 60; ++i) want += fmt::format("{}\n", i);
    return same("what readers saw one after the other", out, want);
}

Status quiet_has_a_deadline(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    const auto exec = Context::shell("echo one; sleep 30");
    BERTH_CHECK(c.start(sandbox, exec));
    std::uint64_t from = 0;
    BERTH_TRY([[maybe_unused]] const auto one, c.read_until(sandbox, exec.id, "one", from));
    const auto begun = system_clock().steady();
    BERTH_TRY(const auto none, c.await(c.backend().read_events(sandbox, exec.id, from, Context::in(200ms))));
    const auto waited = system_clock().steady() - begun;
    BERTH_CHECK(step("ending it", c.await(c.backend().kill(sandbox, exec.id))));
    BERTH_CHECK(expect(none.empty(), "{} events came from a quiet command", none.size()));
    return expect(waited > 150ms && waited < 20s, "it waited for {} ms", waited / 1ms);
}

Status nobody_reads(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    const auto exec = Context::shell("head -c 10485760 /dev/zero; exit 7");
    BERTH_CHECK(c.start(sandbox, exec));
    BERTH_TRY(const auto status, c.ended(sandbox, exec.id));
    BERTH_CHECK(expect(status.code() == 7, "it ended with {}", to_string(status)));
    BERTH_TRY(const auto events, c.events(c.backend(), sandbox, exec.id));
    return same("what was kept", Streams(events).out.size(), std::size_t{10} << 20);
}

Status bounded(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    auto exec = Context::shell("echo head; head -c 4000000 /dev/zero | tr '\\0' x; echo tail");
    exec.log_limit = 256_KiB;
    exec.timeout = 30s;
    BERTH_TRY(const auto ran, c.run(sandbox, exec));
    BERTH_CHECK(exited(ran, 0));
    const std::size_t whole = 5 + 4'000'000 + 5;
    std::uint64_t missing = 0;
    for (const auto& event : ran.events) missing += event.kind == Kind::Gap ? event.gap_bytes : 0;
    // A reader that keeps up may have seen everything; the log itself is bounded afterwards.
    BERTH_CHECK(expect(ran.out.size() + missing == whole, "{} bytes and a gap of {} are not {}",
                       ran.out.size(), missing, whole));
    BERTH_TRY(const auto later, c.events(c.backend(), sandbox, exec.id));
    missing = 0;
    for (const auto& event : later) missing += event.kind == Kind::Gap ? event.gap_bytes : 0;
    const std::string kept = Streams(later).out;
    BERTH_CHECK(expect(missing > 0, "no gap is told, and {} bytes are kept", kept.size()));
    BERTH_CHECK(expect(kept.size() + missing == whole, "{} bytes and a gap of {} are not {}", kept.size(),
                       missing, whole));
    BERTH_CHECK(expect(kept.size() <= (1u << 20), "{} bytes are kept of a log of 256 KiB", kept.size()));
    BERTH_CHECK(expect(kept.starts_with("head\n"), "its head is '{}'", kept.substr(0, 20)));
    return expect(kept.ends_with("xtail\n"), "its tail is not the true one");
}

Status held_by_a_grandchild(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    auto exec = Context::shell("(sleep 0.4; echo late) & echo early; exit 3");
    BERTH_CHECK(c.start(sandbox, exec));
    BERTH_TRY(const auto status, c.ended(sandbox, exec.id));
    BERTH_CHECK(expect(status.code() == 3, "it ended with {}", to_string(status)));
    BERTH_TRY(const auto events, c.events(c.backend(), sandbox, exec.id));
    if (!c.backend().capabilities().late_output) {
        BERTH_CHECK(contains("what was printed before", Streams(events).out, "early\n"));
        BERTH_CHECK(same("the last kind of event", events.back().kind, Kind::Closed));
        return c.not_offered("output after the exit");
    }
    BERTH_CHECK(same("all that was printed", Streams(events).out, "early\nlate\n"));
    bool exited = false;
    for (const auto& event : events) {
        exited = exited || event.kind == Kind::Exit;
        if (event.bytes.contains("late"))
            BERTH_CHECK(expect(exited, "the exit was told after the grandchild"));
    }
    return same("the last kind of event", events.back().kind, Kind::Closed);
}

Status lists_execs(Context& c)
{
    BERTH_TRY(const auto sandbox, c.own());
    const auto first = Context::shell("exit 4");
    BERTH_TRY([[maybe_unused]] const auto ran, c.run(sandbox, first));
    const auto second = Context::shell("sleep 30");
    BERTH_CHECK(c.start(sandbox, second));
    BERTH_TRY(const auto all, c.await(c.backend().execs(sandbox)));
    BERTH_CHECK(same("the number of execs", all.size(), std::size_t{2}));
    BERTH_CHECK(expect(all[0].id == first.id && all[1].id == second.id, "they are not in their order"));
    BERTH_CHECK(expect(!all[0].running && all[0].status && all[0].status->code() == 4,
                       "the first is not told as ended with 4"));
    BERTH_CHECK(expect(all[1].running && !all[1].status, "the second is not told as running"));
    BERTH_TRY(const auto other, c.reopen());
    BERTH_TRY(const auto seen, c.await(other->execs(sandbox)));
    return same("the number another process sees", seen.size(), std::size_t{2});
}

Status settles(Context& c)
{
    BERTH_TRY(const auto log, logged(c, "echo kept; exit 6"));
    for (int i = 0; i < 2; ++i)
        BERTH_CHECK(step("settling it", c.await(c.backend().settle_exec(log.sandbox, log.exec))));
    BERTH_TRY(const auto events, c.events(c.backend(), log.sandbox, log.exec));
    return Streams(events).equals(Streams(log.events));
}

Status of_another_place(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    for (const std::string id : {"../../x", "", "exec_", "/etc/passwd"})
        BERTH_CHECK(refused("the id '" + id + "'",
                            c.await(c.backend().read_events(sandbox, id, 0, Context::in(0s))),
                            Code::Invalid));
    return {};
}

Status of_many(Context& c)
{
    BERTH_TRY(const auto first, logged(c, "echo the first"));
    for (int i = 0; i < 30; ++i) {
        BERTH_TRY(const auto ran, c.sh("echo another"));
        BERTH_CHECK(exited(ran, 0));
    }
    BERTH_TRY(const auto events, c.events(c.backend(), first.sandbox, first.exec));
    return same("the log of the first", Streams(events).out, "the first\n");
}

} // namespace

std::vector<Check> log_checks()
{
    return {
        {kGroup, "reading it again gives the same events", {}, read_again},
        {kGroup, "reading from the middle gives the rest", {}, read_from_the_middle},
        {kGroup, "two followers see the same", {}, two_followers},
        {kGroup, "another process reads the same", {}, another_process},
        {kGroup, "readers that come and go miss nothing", {}, comes_back},
        {kGroup, "reading a quiet command ends at its deadline", {}, quiet_has_a_deadline},
        {kGroup, "a command nobody reads runs to its end", {}, nobody_reads},
        {kGroup, "beyond its limit it tells a gap and keeps the true tail", {}, bounded},
        {kGroup,
         "an exit comes before the close while a grandchild holds the pipe",
         {},
         held_by_a_grandchild},
        {kGroup, "the execs of a sandbox are listed in their order", {}, lists_execs},
        {kGroup, "an exec that ended is settled as often as asked", {}, settles},
        {kGroup, "an id that could lead elsewhere is invalid", {}, of_another_place},
        {kGroup, "many execs later it is still there", {}, of_many},
    };
}

} // namespace berth::conformance

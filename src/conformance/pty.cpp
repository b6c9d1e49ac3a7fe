// Commands on a terminal.

#include <csignal>

#include "conformance/check.hpp"
#include "conformance/context.hpp"

namespace berth::conformance {

namespace {

constexpr std::string_view kGroup = "pty";

ExecSpec on_terminal(std::string script)
{
    ExecSpec exec = Context::shell(std::move(script));
    exec.terminal = TerminalSize{.rows = 30, .columns = 100};
    exec.input = ExecSpec::Stdin::Open;
    return exec;
}

/// A started command, and how far it was read.
struct Talk {
    Context& c;
    SandboxHandle sandbox;
    std::string exec;
    std::uint64_t from = 0;
    std::uint64_t writes = 0;

    static Result<Talk> begin(Context& c, const std::string& script)
    {
        BERTH_TRY(const auto sandbox, c.shared());
        const auto exec = on_terminal(script);
        BERTH_CHECK(c.start(sandbox, exec));
        return Talk{.c = c, .sandbox = sandbox, .exec = exec.id};
    }
    Result<std::string> hears(std::string_view text) { return c.read_until(sandbox, exec, text, from); }
    Status says(std::string bytes)
    {
        const std::size_t size = bytes.size();
        BERTH_TRY(const auto taken,
                  c.await(c.backend().write_input(sandbox, exec, ++writes, std::move(bytes))));
        return same("bytes taken", taken, size);
    }
    Status ends(int code)
    {
        BERTH_TRY(const auto status, c.ended(sandbox, exec));
        return expect(status.code() == code, "it ended with {}", to_string(status));
    }
};

Status is_a_terminal(Context& c)
{
    BERTH_TRY(auto talk, Talk::begin(c, "test -t 0 && test -t 1 && test -t 2 && echo all three"));
    BERTH_TRY([[maybe_unused]] const auto said, talk.hears("all three"));
    return talk.ends(0);
}

Status pipes_are_none(Context& c)
{
    BERTH_TRY(const auto ran, c.sh("test -t 0 || test -t 1 || test -t 2 || echo none"));
    return same("a command without a terminal", ran.out, "none\n");
}

Status controls(Context& c)
{
    BERTH_TRY(auto talk, Talk::begin(c, "echo through the terminal > /dev/tty"));
    BERTH_TRY([[maybe_unused]] const auto said, talk.hears("through the terminal"));
    return talk.ends(0);
}

Status has_stty(Context& c)
{
    BERTH_TRY(const auto ran, c.sh("command -v stty"));
    if (!ran.outcome.status.success()) return c.skip("the template has no stty");
    return {};
}

Status begins_with_its_size(Context& c)
{
    BERTH_CHECK(has_stty(c));
    BERTH_TRY(auto talk, Talk::begin(c, "stty size"));
    BERTH_TRY([[maybe_unused]] const auto said, talk.hears("30 100"));
    return talk.ends(0);
}

Status is_resized(Context& c)
{
    BERTH_CHECK(has_stty(c));
    BERTH_TRY(auto talk, Talk::begin(c, "trap 'stty size; exit 0' WINCH; echo ready; "
                                        "while :; do sleep 0.02; done"));
    BERTH_TRY([[maybe_unused]] const auto ready, talk.hears("ready"));
    BERTH_CHECK(step("resizing it",
                     c.await(c.backend().resize(talk.sandbox, talk.exec, {.rows = 41, .columns = 121}))));
    BERTH_TRY([[maybe_unused]] const auto said, talk.hears("41 121"));
    return talk.ends(0);
}

Status echoes(Context& c)
{
    BERTH_TRY(auto talk, Talk::begin(c, "read -r line; echo \"got <$line>\""));
    BERTH_CHECK(talk.says("typed\n"));
    BERTH_TRY(const auto said, talk.hears("got <typed>"));
    BERTH_CHECK(contains("what the terminal shows", said, "typed\r\n"));
    return talk.ends(0);
}

Status interrupts(Context& c)
{
    BERTH_TRY(auto talk, Talk::begin(c, "trap 'echo stopped; exit 7' INT; echo ready; "
                                        "while :; do sleep 0.02; done"));
    BERTH_TRY([[maybe_unused]] const auto ready, talk.hears("ready"));
    BERTH_CHECK(talk.says("\x03"));
    BERTH_TRY([[maybe_unused]] const auto said, talk.hears("stopped"));
    return talk.ends(7);
}

Status interrupts_what_does_not_care(Context& c)
{
    BERTH_TRY(auto talk, Talk::begin(c, "echo ready; exec sleep 60"));
    BERTH_TRY([[maybe_unused]] const auto ready, talk.hears("ready"));
    BERTH_CHECK(c.eventually("the end of an interrupted command", [&]() -> Result<bool> {
        (void)talk.says("\x03"); // it may not have become the program yet
        BERTH_TRY(const auto end, c.await(c.backend().wait(talk.sandbox, talk.exec, Context::in(200ms))));
        return end.has_value();
    }));
    BERTH_TRY(const auto status, c.ended(talk.sandbox, talk.exec));
    return expect(status.signal() == SIGINT, "it ended with {}", to_string(status));
}

Status ends_input(Context& c)
{
    BERTH_TRY(auto talk, Talk::begin(c, "cat; echo at the end"));
    BERTH_CHECK(talk.says("line\n"));
    BERTH_TRY([[maybe_unused]] const auto echoed, talk.hears("line\r\nline\r\n"));
    BERTH_CHECK(talk.says("\x04"));
    BERTH_TRY([[maybe_unused]] const auto said, talk.hears("at the end"));
    return talk.ends(0);
}

Status is_one_stream(Context& c)
{
    BERTH_TRY(auto talk, Talk::begin(c, "echo out; echo err >&2"));
    BERTH_TRY(const auto events, c.events(c.backend(), talk.sandbox, talk.exec));
    std::string out;
    for (const auto& event : events) {
        if (event.bytes.empty()) continue;
        BERTH_CHECK(same("the kind of an event", event.kind, ExecEvent::Kind::Pty));
        out += event.bytes;
    }
    return same("what the terminal shows", out, "out\r\nerr\r\n");
}

Status names_itself(Context& c)
{
    BERTH_TRY(auto talk, Talk::begin(c, "echo \"<$TERM>\""));
    BERTH_TRY(const auto said, talk.hears(">"));
    return expect(!said.contains("<>"), "TERM is not set");
}

Status shows_much(Context& c)
{
    BERTH_TRY(auto talk, Talk::begin(c, "i=0; while [ $i -lt 20000 ]; do echo 0123456789; i=$((i+1)); done; "
                                        "echo end"));
    BERTH_TRY(const auto events, c.events(c.backend(), talk.sandbox, talk.exec));
    std::string out;
    for (const auto& event : events) out += event.bytes;
    std::string want;
    for (int i = 0; i < 20000; ++i) want += "0123456789\r\n";
    return same("what the terminal shows", out, want + "end\r\n");
}

Status is_killed(Context& c)
{
    BERTH_TRY(auto talk, Talk::begin(c, "echo ready; sleep 60"));
    BERTH_TRY([[maybe_unused]] const auto ready, talk.hears("ready"));
    BERTH_CHECK(step("killing it", c.await(c.backend().kill(talk.sandbox, talk.exec))));
    BERTH_TRY(const auto status, c.ended(talk.sandbox, talk.exec));
    return expect(status.signal() == SIGKILL, "it ended with {}", to_string(status));
}

Status pipes_have_no_size(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    const auto exec = Context::shell("sleep 30");
    BERTH_CHECK(c.start(sandbox, exec));
    const auto resized = c.await(c.backend().resize(sandbox, exec.id, {.rows = 10, .columns = 10}));
    BERTH_CHECK(step("ending it", c.await(c.backend().kill(sandbox, exec.id))));
    return refused("resizing a command without a terminal", resized);
}

} // namespace

std::vector<Check> pty_checks()
{
    const std::vector<Need> pty{Operation::Pty};
    return {
        {kGroup, "the three streams are a terminal", pty, is_a_terminal},
        {kGroup, "without one they are none", {}, pipes_are_none},
        {kGroup, "it is the controlling terminal", pty, controls},
        {kGroup, "it begins with the size asked for", pty, begins_with_its_size},
        {kGroup, "it is resized, and the command told", pty, is_resized},
        {kGroup, "what is typed is echoed", pty, echoes},
        {kGroup, "Ctrl-C reaches a command that listens", pty, interrupts},
        {kGroup, "Ctrl-C ends a command that does not", pty, interrupts_what_does_not_care},
        {kGroup, "Ctrl-D ends the input", pty, ends_input},
        {kGroup, "its output is one stream", pty, is_one_stream},
        {kGroup, "TERM says what it is", pty, names_itself},
        {kGroup, "much output arrives whole", pty, shows_much},
        {kGroup, "a kill ends what runs on it", pty, is_killed},
        {kGroup, "a command without one has no size", {}, pipes_have_no_size},
    };
}

} // namespace berth::conformance

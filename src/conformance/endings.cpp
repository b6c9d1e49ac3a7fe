// How a command ends is what the kernel said, never a guess.

#include <csignal>

#include "conformance/check.hpp"
#include "conformance/context.hpp"

namespace berth::conformance {

namespace {

constexpr std::string_view kGroup = "endings";

Check exits(int code)
{
    const auto run = [code](Context& c) -> Status {
        BERTH_TRY(const auto ran, c.sh(fmt::format("exit {}", code)));
        BERTH_CHECK(expect(!ran.outcome.timed_out, "it is said to have timed out"));
        return exited(ran, code);
    };
    return {kGroup, fmt::format("exit code {} is told", code), {}, run};
}

Check dies_of(int signo, std::string_view name)
{
    const auto run = [signo](Context& c) -> Status {
        BERTH_TRY(const auto ran, c.sh(fmt::format("kill -{} $$; sleep 5", signo)));
        return expect(ran.outcome.status.signal() == signo, "it ended with {}",
                      to_string(ran.outcome.status));
    };
    return {kGroup, fmt::format("death by {} is told as such", name), {}, run};
}

Check cannot_start(std::string name, std::string script, std::string word, Code want)
{
    const auto run = [=](Context& c) -> Status {
        BERTH_TRY(const auto sandbox, c.shared());
        BERTH_TRY(const auto dir, c.dir());
        BERTH_TRY([[maybe_unused]] const auto made, c.output(sandbox, fmt::format("cd {}; {}", dir, script)));
        const std::string path = word.starts_with("./") ? dir + word.substr(1) : word;
        return refused(path, c.await(c.backend().exec(sandbox, Context::command({path}))), want);
    };
    return {kGroup, std::move(name), {}, run};
}

/// A process that lives writes on: its number would mean another one in another command's view.
constexpr std::string_view kBeating = "while :; do echo >> {0}/beat; sleep 0.02; done";

std::string beating(std::string_view script, const std::string& dir)
{
    return fmt::format(fmt::runtime(fmt::format(fmt::runtime(script), fmt::arg("beat", kBeating))), dir);
}

/// Whoever wrote to the file writes no more.
Status dies(Context& c, const SandboxHandle& sandbox, const std::string& file)
{
    return c.eventually("the death of a grandchild", [&]() -> Result<bool> {
        const std::string script = fmt::format("a=$(wc -c < {0}); sleep 0.3; b=$(wc -c < {0}); "
                                               "[ $a -gt 0 ] && [ $a = $b ] && echo gone || echo alive",
                                               file);
        BERTH_TRY(const auto said, c.output(sandbox, script));
        return said == "gone\n";
    });
}

Status timeout_kills_the_tree(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    BERTH_TRY(const auto dir, c.dir());
    auto exec = Context::shell(beating("echo before; sh -c '({beat}) & wait' & wait", dir));
    exec.timeout = 500ms;
    BERTH_CHECK(c.start(sandbox, exec));
    BERTH_TRY(const auto ran, c.follow(c.backend(), sandbox, exec));
    BERTH_CHECK(expect(ran.outcome.timed_out, "it is not said to have timed out"));
    BERTH_CHECK(
        expect(ran.outcome.status.signal() == SIGKILL, "it ended with {}", to_string(ran.outcome.status)));
    BERTH_CHECK(same("what it said before", ran.out, "before\n"));
    return dies(c, sandbox, dir + "/beat");
}

Status kill_reaches(Context& c, const std::string& script, const std::string& dir)
{
    BERTH_TRY(const auto sandbox, c.shared());
    const auto exec = Context::shell(script);
    BERTH_CHECK(c.start(sandbox, exec));
    std::uint64_t from = 0;
    BERTH_TRY([[maybe_unused]] const auto ready, c.read_until(sandbox, exec.id, "ready", from));
    BERTH_CHECK(step("killing it", c.await(c.backend().kill(sandbox, exec.id))));
    BERTH_TRY(const auto status, c.ended(sandbox, exec.id));
    BERTH_CHECK(expect(status.signal() == SIGKILL, "it ended with {}", to_string(status)));
    return dies(c, sandbox, dir + "/beat");
}

Status kill_ends_children(Context& c)
{
    BERTH_TRY(const auto dir, c.dir());
    return kill_reaches(
        c, beating("({beat}) & until [ -s {{0}}/beat ]; do sleep 0.02; done; echo ready; wait", dir), dir);
}

Status kill_ends_other_sessions(Context& c)
{
    // Whoever can freeze all that an exec started can reach all of it; else only its session is known.
    if (!c.backend().capabilities().can(Operation::Pause))
        return c.skip("without control groups only the session of a command is reached; run as root");
    BERTH_TRY(const auto sandbox, c.shared());
    BERTH_TRY(const auto ran, c.sh("command -v setsid"));
    if (!ran.outcome.status.success()) return c.skip("the template has no setsid");
    BERTH_TRY(const auto dir, c.dir());
    return kill_reaches(c,
                        beating("setsid sh -c '{beat}' & until [ -s {{0}}/beat ]; do sleep 0.02; done; "
                                "echo ready; sleep 300",
                                dir),
                        dir);
}

Status signal_reaches(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    const auto exec = Context::shell("trap 'exit 5' USR1; echo ready; while :; do sleep 0.02; done");
    BERTH_CHECK(c.start(sandbox, exec));
    std::uint64_t from = 0;
    BERTH_TRY([[maybe_unused]] const auto ready, c.read_until(sandbox, exec.id, "ready", from));
    BERTH_CHECK(step("the signal", c.await(c.backend().signal(sandbox, exec.id, SIGUSR1))));
    BERTH_TRY(const auto status, c.ended(sandbox, exec.id));
    return expect(status.code() == 5, "it ended with {}", to_string(status));
}

Status ignored_signal_goes_on(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    const auto exec = Context::shell("trap '' TERM; echo ready; i=0; while [ $i -lt 20 ]; do sleep 0.02; "
                                     "i=$((i+1)); done; exit 6");
    BERTH_CHECK(c.start(sandbox, exec));
    std::uint64_t from = 0;
    BERTH_TRY([[maybe_unused]] const auto ready, c.read_until(sandbox, exec.id, "ready", from));
    BERTH_CHECK(step("the signal", c.await(c.backend().signal(sandbox, exec.id, SIGTERM))));
    BERTH_TRY(const auto status, c.ended(sandbox, exec.id));
    return expect(status.code() == 6, "it ended with {}", to_string(status));
}

Status waiting_takes_nothing(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    const auto exec = Context::shell("sleep 0.3; exit 9");
    BERTH_CHECK(c.start(sandbox, exec));
    BERTH_TRY(const auto early, c.await(c.backend().wait(sandbox, exec.id, Context::in(0s))));
    BERTH_CHECK(expect(!early, "a running command is said to have ended"));
    for (int i = 0; i < 3; ++i) {
        BERTH_TRY(const auto status, c.ended(sandbox, exec.id));
        BERTH_CHECK(expect(status.code() == 9, "asked for the {}. time: {}", i + 1, to_string(status)));
    }
    return {};
}

Status another_process_knows(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    BERTH_TRY(const auto other, c.reopen());
    const auto exec = Context::shell("sleep 0.2; exit 11");
    BERTH_CHECK(c.start(sandbox, exec));
    BERTH_TRY(const auto end, c.await(other->wait(sandbox, exec.id, Context::in(30s))));
    BERTH_CHECK(expect(end.has_value(), "it did not end"));
    return expect(end->status.code() == 11, "it ended with {}", to_string(end->status));
}

Status what_did_not_start_is_no_exec(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    const auto exec = Context::command({"/no/such/program"});
    BERTH_CHECK(refused("the command", c.await(c.backend().exec(sandbox, exec)), Code::NotFound));
    BERTH_TRY(const auto all, c.await(c.backend().execs(sandbox)));
    for (const auto& one : all) BERTH_CHECK(expect(one.id != exec.id, "it is listed all the same"));
    return {};
}

Status one_id_is_one_exec(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    const auto exec = Context::shell("echo once");
    BERTH_TRY([[maybe_unused]] const auto ran, c.run(sandbox, exec));
    BERTH_CHECK(refused("the same id again", c.await(c.backend().exec(sandbox, exec)), Code::Conflict));
    BERTH_TRY(const auto events, c.events(c.backend(), sandbox, exec.id));
    std::string out;
    for (const auto& event : events) out += event.bytes;
    return same("its output", out, "once\n");
}

Status unknown_exec(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    const auto id = Context::shell("").id;
    BERTH_CHECK(refused("wait", c.await(c.backend().wait(sandbox, id, Context::in(0s))), Code::NotFound));
    BERTH_CHECK(refused("signal", c.await(c.backend().signal(sandbox, id, SIGTERM)), Code::NotFound));
    BERTH_CHECK(refused("kill", c.await(c.backend().kill(sandbox, id)), Code::NotFound));
    return refused("read", c.await(c.backend().read_events(sandbox, id, 0, Context::in(0s))), Code::NotFound);
}

Status orphans_do_not_delay(Context& c)
{
    BERTH_TRY(const auto ran, c.sh("sleep 2 > /dev/null 2>&1 & exit 4"));
    return exited(ran, 4);
}

} // namespace

std::vector<Check> ending_checks()
{
    return {
        exits(0),
        exits(1),
        exits(2),
        exits(42),
        exits(126),
        exits(127),
        exits(255),
        dies_of(SIGTERM, "SIGTERM"),
        dies_of(SIGKILL, "SIGKILL"),
        dies_of(SIGINT, "SIGINT"),
        dies_of(SIGHUP, "SIGHUP"),
        dies_of(SIGSEGV, "SIGSEGV"),
        dies_of(SIGABRT, "SIGABRT"),
        cannot_start("a command that is nowhere in PATH is not found", ":", "no-such-command-here",
                     Code::NotFound),
        cannot_start("a path that does not exist is not found", ":", "./missing", Code::NotFound),
        cannot_start("a file that may not be executed is denied", "echo x > plain; chmod 644 plain",
                     "./plain", Code::Denied),
        cannot_start("a directory is no command", "mkdir directory", "./directory", Code::Denied),
        cannot_start("a script whose interpreter is missing is not found",
                     "printf '#!/no/such/interpreter\\n' > script; chmod 755 script", "./script",
                     Code::NotFound),
        {kGroup, "a timeout ends the command with all it started", {}, timeout_kills_the_tree},
        {kGroup, "a kill ends the command with all it started", {}, kill_ends_children},
        {kGroup, "a kill reaches what went into a session of its own", {}, kill_ends_other_sessions},
        {kGroup, "a signal reaches the command", {}, signal_reaches},
        {kGroup, "a signal the command ignores changes nothing", {}, ignored_signal_goes_on},
        {kGroup, "waiting has a deadline, and an end is told as often as asked", {}, waiting_takes_nothing},
        {kGroup, "another process learns the true end", {}, another_process_knows},
        {kGroup, "a command that could not start is no exec", {}, what_did_not_start_is_no_exec},
        {kGroup, "an id stands for one exec", {}, one_id_is_one_exec},
        {kGroup, "an unknown exec is not found", {}, unknown_exec},
        {kGroup, "what is left in the background does not change the end", {}, orphans_do_not_delay},
    };
}

} // namespace berth::conformance

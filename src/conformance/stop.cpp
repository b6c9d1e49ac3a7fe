// Stopping ends the processes and keeps the files.

#include <csignal>

#include "conformance/check.hpp"
#include "conformance/context.hpp"

namespace berth::conformance {

namespace {

constexpr std::string_view kGroup = "stop";

Status in_state(Context& c, const SandboxHandle& sandbox, State want)
{
    BERTH_TRY(const auto found, c.await(c.backend().inspect(sandbox)));
    BERTH_CHECK(
        expect(found.state == want, "its state is {}, not {}", to_string(found.state), to_string(want)));
    return expect(found.health != Health::Gone, "it is said to be gone");
}

Status stop(Context& c, const SandboxHandle& sandbox, std::chrono::milliseconds grace = 1s)
{
    return step("stopping it", c.await(c.backend().stop(sandbox, grace)));
}

Status start(Context& c, const SandboxHandle& sandbox)
{
    BERTH_TRY([[maybe_unused]] const auto started, step("starting it", c.await(c.backend().start(sandbox))));
    return {};
}

Status keeps_files(Context& c)
{
    BERTH_TRY(const auto sandbox, c.own());
    BERTH_TRY(const auto path, c.at_home("kept"));
    BERTH_CHECK(c.write(sandbox, path, "before", 0640));
    BERTH_CHECK(stop(c, sandbox));
    BERTH_CHECK(in_state(c, sandbox, State::Stopped));
    BERTH_CHECK(start(c, sandbox));
    BERTH_CHECK(in_state(c, sandbox, State::Running));
    BERTH_TRY(const auto bytes, c.read(sandbox, path));
    BERTH_CHECK(same("the file", bytes, "before"));
    BERTH_TRY(const auto entry, c.await(c.backend().stat_file(sandbox, {.path = path})));
    return same("its mode", entry.mode, 0640u);
}

Status keeps_removals(Context& c)
{
    BERTH_TRY(const auto sandbox, c.own());
    BERTH_TRY(const auto path, c.at_home("file"));
    BERTH_CHECK(c.write(sandbox, path, "x"));
    BERTH_CHECK(stop(c, sandbox));
    BERTH_CHECK(start(c, sandbox));
    BERTH_TRY([[maybe_unused]] const auto removed, c.output(sandbox, "rm " + path));
    BERTH_CHECK(stop(c, sandbox));
    BERTH_CHECK(start(c, sandbox));
    return refused("the removed file", c.read(sandbox, path), Code::NotFound);
}

Status second_time(Context& c)
{
    BERTH_TRY(const auto sandbox, c.own());
    BERTH_TRY(const auto path, c.at_home("log"));
    for (int i = 0; i < 3; ++i) {
        BERTH_TRY([[maybe_unused]] const auto added,
                  c.output(sandbox, fmt::format("echo {} >> {}", i, path)));
        BERTH_CHECK(stop(c, sandbox));
        BERTH_CHECK(start(c, sandbox));
    }
    BERTH_TRY(const auto bytes, c.read(sandbox, path));
    return same("what each life wrote", bytes, "0\n1\n2\n");
}

Status idempotent(Context& c)
{
    BERTH_TRY(const auto sandbox, c.own());
    BERTH_CHECK(start(c, sandbox));
    BERTH_CHECK(stop(c, sandbox));
    BERTH_CHECK(stop(c, sandbox));
    BERTH_CHECK(start(c, sandbox));
    BERTH_CHECK(start(c, sandbox));
    return in_state(c, sandbox, State::Running);
}

Status refuses_execs(Context& c)
{
    BERTH_TRY(const auto sandbox, c.own());
    BERTH_CHECK(stop(c, sandbox));
    return refused("a command in a stopped one", c.await(c.backend().exec(sandbox, Context::shell("true"))),
                   Code::Conflict);
}

Status ends_processes(Context& c)
{
    BERTH_TRY(const auto sandbox, c.own());
    const auto exec = Context::shell("echo ready; sleep 300");
    BERTH_CHECK(c.start(sandbox, exec));
    std::uint64_t from = 0;
    BERTH_TRY([[maybe_unused]] const auto ready, c.read_until(sandbox, exec.id, "ready", from));
    BERTH_CHECK(stop(c, sandbox));
    BERTH_TRY(const auto all, c.await(c.backend().execs(sandbox)));
    BERTH_CHECK(same("execs of the stopped one", all.size(), std::size_t{1}));
    BERTH_CHECK(expect(!all[0].running, "it is said to run"));
    BERTH_CHECK(start(c, sandbox));
    BERTH_TRY(const auto count, c.output(sandbox, "grep -l 'sleep.30[0]' /proc/[0-9]*/cmdline | wc -l"));
    return same("processes of the life before", std::string_view(count).substr(0, 1), "0");
}

Status gives_grace(Context& c)
{
    BERTH_TRY(const auto sandbox, c.own());
    BERTH_TRY(const auto path, c.at_home("farewell"));
    const auto exec = Context::shell(fmt::format("trap 'echo bye > {}; exit 0' TERM; echo ready; "
                                                 "while :; do sleep 0.02; done",
                                                 path));
    BERTH_CHECK(c.start(sandbox, exec));
    std::uint64_t from = 0;
    BERTH_TRY([[maybe_unused]] const auto ready, c.read_until(sandbox, exec.id, "ready", from));
    BERTH_CHECK(stop(c, sandbox, 10s));
    BERTH_CHECK(start(c, sandbox));
    BERTH_TRY(const auto bytes, c.read(sandbox, path));
    return same("what it wrote when it was asked to end", bytes, "bye\n");
}

Status grace_is_bounded(Context& c)
{
    BERTH_TRY(const auto sandbox, c.own());
    const auto exec = Context::shell("trap '' TERM; echo ready; while :; do sleep 0.05; done");
    BERTH_CHECK(c.start(sandbox, exec));
    std::uint64_t from = 0;
    BERTH_TRY([[maybe_unused]] const auto ready, c.read_until(sandbox, exec.id, "ready", from));
    const auto begun = system_clock().steady();
    BERTH_CHECK(stop(c, sandbox, 300ms));
    const auto took = system_clock().steady() - begun;
    BERTH_CHECK(expect(took < 20s, "it took {} ms", took / 1ms));
    return in_state(c, sandbox, State::Stopped);
}

Status keeps_logs(Context& c)
{
    BERTH_TRY(const auto sandbox, c.own());
    const auto exec = Context::shell("echo said before; exit 5");
    BERTH_TRY([[maybe_unused]] const auto ran, c.run(sandbox, exec));
    BERTH_CHECK(stop(c, sandbox));
    BERTH_TRY(const auto stopped, c.events(c.backend(), sandbox, exec.id));
    BERTH_CHECK(start(c, sandbox));
    BERTH_TRY(const auto started, c.events(c.backend(), sandbox, exec.id));
    for (const auto& events : {stopped, started}) {
        std::string out;
        for (const auto& event : events) out += event.bytes;
        BERTH_CHECK(same("its output", out, "said before\n"));
    }
    return {};
}

Status by_another_process(Context& c)
{
    BERTH_TRY(const auto sandbox, c.own());
    BERTH_TRY(const auto path, c.at_home("kept"));
    BERTH_CHECK(c.write(sandbox, path, "x"));
    BERTH_TRY(const auto other, c.reopen());
    BERTH_CHECK(step("stopping it", c.await(other->stop(sandbox, 1s))));
    BERTH_CHECK(in_state(c, sandbox, State::Stopped));
    BERTH_CHECK(start(c, sandbox));
    BERTH_TRY(const auto bytes, c.read(sandbox, path));
    return same("the file", bytes, "x");
}

Status stopped_is_found(Context& c)
{
    CreateRequest request(c.spec());
    request.labels.key = "conversation:conformance:stopped";
    BERTH_TRY(const auto sandbox, c.create(request));
    BERTH_CHECK(stop(c, sandbox));
    BERTH_TRY(const auto other, c.reopen());
    BERTH_TRY(const auto all, c.await(other->scan()));
    for (const auto& one : all) {
        if (one.sandbox != sandbox) continue;
        BERTH_CHECK(same("its state", one.state, State::Stopped));
        return same("its key", one.labels.key, request.labels.key);
    }
    return fail(Code::Internal, "a stopped one is not listed");
}

Status stopped_is_destroyed(Context& c)
{
    BERTH_TRY(const auto sandbox, c.own());
    BERTH_CHECK(stop(c, sandbox));
    BERTH_CHECK(step("destroying it", c.await(c.backend().destroy(sandbox))));
    BERTH_TRY(const auto found, c.await(c.backend().inspect(sandbox)));
    return same("its health", found.health, Health::Gone);
}

Status same_sandbox(Context& c)
{
    BERTH_TRY(const auto sandbox, c.own());
    const std::string script = "cat /etc/machine-id 2>/dev/null; cat /proc/sys/kernel/hostname; id -u; pwd";
    BERTH_TRY(const auto before, c.output(sandbox, script));
    BERTH_CHECK(stop(c, sandbox));
    BERTH_CHECK(start(c, sandbox));
    BERTH_TRY(const auto after, c.output(sandbox, script));
    return same("machine id, host name, user and directory", after, before);
}

Status unknown(Context& c)
{
    BERTH_TRY(const auto sandbox, c.own());
    BERTH_CHECK(step("destroying it", c.await(c.backend().destroy(sandbox))));
    return refused("starting one that is gone", c.await(c.backend().start(sandbox)), Code::NotFound);
}

} // namespace

std::vector<Check> stop_checks()
{
    const std::vector<Need> stops{Operation::Stop};
    return {
        {kGroup, "the files stay", stops, keeps_files},
        {kGroup, "what was removed stays removed", stops, keeps_removals},
        {kGroup, "the files stay after the second and third time", stops, second_time},
        {kGroup, "stopped and started already are success", stops, idempotent},
        {kGroup, "a stopped one runs no command", stops, refuses_execs},
        {kGroup, "every process ends, and its exec is told as ended", stops, ends_processes},
        {kGroup, "a process has time for its farewell", stops, gives_grace},
        {kGroup, "a process that does not listen is killed", stops, grace_is_bounded},
        {kGroup, "logs can be read while it is stopped and afterwards", stops, keeps_logs},
        {kGroup, "another process stops it", stops, by_another_process},
        {kGroup, "a stopped one is found by its labels", stops, stopped_is_found},
        {kGroup, "a stopped one is destroyed", stops, stopped_is_destroyed},
        {kGroup, "what starts again is the same sandbox", stops, same_sandbox},
        {kGroup, "one that is gone cannot be started", stops, unknown},
    };
}

} // namespace berth::conformance

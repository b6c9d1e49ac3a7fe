// A policy is held or refused, never quietly weaker.

#include <csignal>

#include "conformance/check.hpp"
#include "conformance/context.hpp"

namespace berth::conformance {

namespace {

constexpr std::string_view kGroup = "policy";

using policy::Access;
using policy::Feature;

policy::FileRule rule(Access access, policy::Target target)
{
    return {.access = access, .target = std::move(target)};
}
policy::Target root() { return policy::Symbolic{.symbol = policy::Symbol::Root}; }

policy::Policy reading_all()
{
    auto out = *policy::preset("read-only");
    out.limits = {};
    return out;
}

Status narrower_writes_nothing(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    BERTH_TRY(const auto dir, c.dir());
    auto exec = Context::shell(
        fmt::format("cat /etc/passwd > /dev/null && echo read; echo x > {}/file || echo denied", dir));
    exec.policy = reading_all();
    BERTH_TRY(const auto ran, c.run(sandbox, exec));
    BERTH_CHECK(same("what it could do", ran.out, "read\ndenied\n"));
    BERTH_CHECK(refused("the file", c.read(sandbox, dir + "/file"), Code::NotFound));
    BERTH_TRY(const auto wide, c.output(sandbox, fmt::format("echo x > {0}/file; cat {0}/file", dir)));
    return same("a command without a policy of its own", wide, "x\n");
}

Status narrower_is_denied(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    BERTH_TRY(const auto dir, c.dir());
    BERTH_CHECK(c.write(sandbox, dir + "/secret", "hidden"));
    auto exec = Context::shell(fmt::format("cat {}/secret 2>/dev/null; echo end", dir));
    exec.policy = reading_all();
    exec.policy->files.push_back(rule(Access::Deny, policy::Path{dir + "/secret"}));
    BERTH_TRY(const auto ran, c.run(sandbox, exec));
    return same("what it could read", ran.out, "end\n");
}

Status narrower_by_pattern(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    BERTH_TRY(const auto dir, c.dir());
    BERTH_CHECK(c.write(sandbox, dir + "/a.secret", "hidden"));
    auto exec = Context::shell(
        fmt::format("cd {}; cat a.secret 2>/dev/null; echo x 2>/dev/null > b.secret; cat b.secret "
                    "2>/dev/null; echo open > c; cat c; rm c",
                    dir));
    exec.policy = reading_all();
    exec.policy->files.push_back(rule(Access::Write, policy::Path{dir}));
    exec.policy->files.push_back(rule(Access::Deny, policy::Glob{dir + "/*.secret"}));
    BERTH_TRY(const auto ran, c.run(sandbox, exec));
    return same("what it could do", ran.out, "open\n");
}

Status wider_is_refused(Context& c)
{
    SandboxSpec spec = c.spec();
    spec.policy = reading_all();
    spec.policy.files.push_back(rule(Access::Write, policy::Symbolic{.symbol = policy::Symbol::Tmpdir}));
    BERTH_TRY(const auto sandbox, c.create(std::move(spec)));
    auto exec = Context::shell("true");
    exec.policy = *policy::preset("full-access");
    exec.policy->limits = {};
    BERTH_CHECK(refused("a wider policy", c.await(c.backend().exec(sandbox, exec)), Code::Denied));
    exec.policy = reading_all();
    exec.policy->network = policy::Network::Host;
    return refused("more network", c.await(c.backend().exec(sandbox, exec)), Code::Denied);
}

Status narrower_tells_its_end(Context& c)
{
    BERTH_TRY(const auto sandbox, c.shared());
    auto exec = Context::shell("cat; echo err >&2; exit 23");
    exec.policy = reading_all();
    exec.input = ExecSpec::Stdin::Open;
    BERTH_TRY(const auto ran, c.run(sandbox, exec, "given"));
    BERTH_CHECK(same("its output", ran.out, "given"));
    BERTH_CHECK(same("its standard error", ran.err, "err\n"));
    return exited(ran, 23);
}

Status reads_only(Context& c)
{
    SandboxSpec spec = c.spec();
    spec.policy = reading_all();
    BERTH_TRY(const auto sandbox, c.create(std::move(spec)));
    BERTH_TRY(
        const auto said,
        c.output(sandbox,
                 "for d in \"$HOME\" /tmp /etc /; do (: > $d/check) 2>/dev/null && echo $d; done; echo end"));
    return same("where it could write", said, "end\n");
}

Status writes_only_there(Context& c)
{
    SandboxSpec spec = c.spec();
    spec.policy = reading_all();
    spec.policy.files.push_back(rule(Access::Write, policy::Symbolic{.symbol = policy::Symbol::Tmpdir}));
    BERTH_TRY(const auto sandbox, c.create(std::move(spec)));
    BERTH_TRY(
        const auto said,
        c.output(sandbox,
                 "for d in \"$HOME\" /tmp /etc /; do (: > $d/check) 2>/dev/null && echo $d; done; echo end"));
    return same("where it could write", said, "/tmp\nend\n");
}

Status denies(Context& c)
{
    SandboxSpec spec = c.spec();
    spec.policy.files = {rule(Access::Read, root()), rule(Access::Deny, policy::Path{"/etc/hostname"}),
                         rule(Access::Deny, policy::Path{"/etc/passwd"})};
    BERTH_TRY(const auto sandbox, c.create(std::move(spec)));
    BERTH_TRY(const auto said, c.output(sandbox, "cat /etc/passwd /etc/hostname 2>/dev/null; echo end"));
    return same("what it could read", said, "end\n");
}

Status few_files(Context& c)
{
    SandboxSpec spec = c.spec();
    spec.policy.limits.open_files = 40;
    BERTH_TRY(const auto sandbox, c.create(std::move(spec)));
    BERTH_TRY(const auto said, c.output(sandbox, "ulimit -n"));
    return same("the limit of open files", said, "40\n");
}

Status few_processes(Context& c)
{
    SandboxSpec spec = c.spec();
    spec.policy.limits.pids = 30;
    BERTH_TRY(const auto sandbox, c.create(std::move(spec)));
    // The shell itself fails when it may not fork any more: its last word counts the ones it had.
    BERTH_TRY(
        const auto ran,
        c.run(sandbox, Context::shell("i=0; while [ $i -lt 60 ]; do sleep 5 & i=$((i+1)); echo $i; done")));
    BERTH_CHECK(lacks("the processes it had", ran.out, "\n40\n"));
    BERTH_CHECK(contains("the processes it had", ran.out, "\n5\n"));
    return {};
}

Status little_memory(Context& c)
{
    SandboxSpec spec = c.spec();
    spec.policy.limits.memory = 64_MiB;
    BERTH_TRY(const auto sandbox, c.create(std::move(spec)));
    // A variable of 200 MB, doubled from 1 MB.
    BERTH_TRY(const auto ran,
              c.run(sandbox, Context::shell("x=$(head -c 1000000 /dev/zero | tr '\\0' x); i=0; "
                                            "while [ $i -lt 8 ]; do x=$x$x; i=$((i+1)); done; echo ${#x}")));
    BERTH_CHECK(expect(!ran.outcome.status.success(), "it had 256 MB: {}", ran.out));
    BERTH_TRY(const auto said, c.output(sandbox, "echo lives"));
    return same("the sandbox afterwards", said, "lives\n");
}

Status little_disk(Context& c)
{
    SandboxSpec spec = c.spec();
    spec.policy.limits.disk = 16_MiB;
    const auto made = c.create(std::move(spec));
    // A backend may hold a limit for throw-away sandboxes only; then it refuses a kept one.
    if (!made) return refused("a kept one", made, Code::Unsupported);
    BERTH_TRY(const auto ran,
              c.run(*made, Context::shell("head -c 40000000 /dev/zero > big || echo full; wc -c < big")));
    return contains("a file of 40 MB", ran.out, "full");
}

Status little_time(Context& c)
{
    SandboxSpec spec = c.spec();
    spec.policy.limits.wall_time = 500ms;
    const auto made = c.create(std::move(spec));
    if (!made) return refused("a kept one", made, Code::Unsupported);
    auto exec = Context::shell("sleep 20; echo survived");
    exec.timeout = 15s;
    const auto started = c.await(c.backend().exec(*made, exec));
    if (!started) return {}; // its time was over before
    BERTH_TRY(const auto ran, c.follow(c.backend(), *made, exec));
    return expect(!ran.outcome.timed_out && !ran.outcome.status.success(),
                  "a command ran for fifteen seconds");
}

Status patterns(Context& c)
{
    SandboxSpec spec = c.spec();
    spec.policy.files = {rule(Access::Read, root()),
                         rule(Access::Write, policy::Symbolic{.symbol = policy::Symbol::Home}),
                         rule(Access::Deny, policy::Glob{"**/*.secret"})};
    BERTH_TRY(const auto sandbox, c.create(std::move(spec)));
    BERTH_TRY(const auto said,
              c.output(sandbox, "echo x 2>/dev/null > a.secret; cat a.secret 2>/dev/null; echo end"));
    return same("what it could do with a file made later", said, "end\n");
}

Status devices(Context& c)
{
    SandboxSpec spec = c.spec();
    spec.policy.devices = {"/dev/fuse"};
    BERTH_TRY(const auto sandbox, c.create(std::move(spec)));
    BERTH_TRY(const auto said, c.output(sandbox, "test -c /dev/fuse && echo there"));
    return same("the device", said, "there\n");
}

Status refuses_by_name(Context& c)
{
    for (const Feature feature : policy::all_features()) {
        if (c.backend().capabilities().holds.of(feature).tier != policy::Tier::None) continue;
        BERTH_CHECK(expect(!c.backend().capabilities().holds.of(feature).how.empty(),
                           "why {} is not held is not told", to_string(feature)));
    }
    return {};
}

} // namespace

std::vector<Check> policy_checks()
{
    const std::vector<Need> exec{Operation::ExecPolicy};
    return {
        {kGroup, "a narrower command writes nothing, the next one does", exec, narrower_writes_nothing},
        {kGroup, "a narrower command does not read what it is denied", exec, narrower_is_denied},
        {kGroup,
         "a narrower command does not read what a pattern denies it, nor make it",
         {Operation::ExecPolicy, Feature::Globs},
         narrower_by_pattern},
        {kGroup,
         "a wider command is refused",
         {Operation::ExecPolicy, Feature::ReadOnlyPaths},
         wider_is_refused},
        {kGroup, "a narrower command has the same streams and end", exec, narrower_tells_its_end},
        {kGroup, "what may be read only is not written", {Feature::ReadOnlyPaths}, reads_only},
        {kGroup,
         "what may be written is, and nothing else",
         {Feature::WritablePaths, Feature::ReadOnlyPaths},
         writes_only_there},
        {kGroup, "what is denied is not read", {Feature::DeniedPaths, Feature::ReadOnlyPaths}, denies},
        {kGroup, "a limit of open files is held", {Feature::LimitOpenFiles}, few_files},
        {kGroup, "a limit of processes is held", {Feature::LimitPids}, few_processes},
        {kGroup,
         "a limit of memory is held, and the sandbox lives on",
         {Feature::LimitMemory},
         little_memory},
        {kGroup, "a limit of disk is held or refused", {Feature::LimitDisk}, little_disk},
        {kGroup, "a limit of wall time is held or refused", {Feature::LimitWallTime}, little_time},
        {kGroup, "rules on patterns are held or refused", {Feature::Globs}, patterns},
        {kGroup, "host devices are passed on or refused", {Feature::Devices}, devices},
        {kGroup, "what is not held is told with its reason", {}, refuses_by_name},
    };
}

} // namespace berth::conformance

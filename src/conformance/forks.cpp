// Forks and restores as the lifecycle makes them: a copy of the files and nothing of the identity, the
// secrets or the connections.

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "base/io.hpp"
#include "conformance/check.hpp"
#include "conformance/reach.hpp"
#include "conformance/world.hpp"

namespace berth::conformance {

namespace {

constexpr std::string_view kGroup = "forks";

const std::string kKey = "conversation:conformance:source";

struct Forked {
    std::unique_ptr<World> world;
    Acquired source;
    std::string file;
};

Result<Forked> source(Context& c)
{
    Forked out;
    BERTH_TRY(out.world, World::make(c));
    BERTH_TRY(out.source, out.world->acquire(kKey));
    BERTH_TRY(out.file, c.at_home("file"));
    BERTH_CHECK(c.write(World::handle(out.source), out.file, "work"));
    return out;
}

Result<std::vector<SandboxHandle>> fork(Context& c, Forked& f, std::size_t count)
{
    BERTH_TRY(const auto answer,
              step("forking", c.await(f.world->life().fork(kKey, {.count = count, .name = {}}))));
    BERTH_CHECK(same("the number of forks", answer.forks.size(), count));
    std::vector<SandboxHandle> out;
    for (const auto& record : answer.forks) out.push_back(Lifecycle::handle(record));
    return out;
}

/// One fork of a source in which commands run; nothing where that is not offered, which was said.
Result<std::optional<ForkAnswer>> fork_busy(Context& c, Forked& f)
{
    auto answer = c.await(f.world->life().fork(kKey, {.count = 1, .name = {}}));
    if (answer) return *std::move(answer);
    if (answer.error().code == Code::Unsupported) return std::optional<ForkAnswer>{};
    return step("forking", Result<std::optional<ForkAnswer>>(std::unexpected(std::move(answer).error())));
}

constexpr const char* kNoBusyForks = "forks while commands run";

Status have_the_files(Context& c)
{
    BERTH_TRY(auto f, source(c));
    BERTH_TRY(const auto forks, fork(c, f, 3));
    for (const auto& one : forks) {
        BERTH_TRY(const auto bytes, c.read(one, f.file));
        BERTH_CHECK(same("the file", bytes, "work"));
    }
    BERTH_CHECK(c.write(forks[0], f.file, "changed"));
    BERTH_TRY(const auto other, c.read(forks[1], f.file));
    BERTH_CHECK(same("the file of another fork", other, "work"));
    BERTH_TRY(const auto first, c.read(World::handle(f.source), f.file));
    return same("the file of the source", first, "work");
}

Check differ(std::string name, std::string script)
{
    const auto run = [script](Context& c) -> Status {
        BERTH_TRY(auto f, source(c));
        BERTH_TRY(auto all, fork(c, f, 2));
        all.push_back(World::handle(f.source));
        std::set<std::string> seen;
        for (const auto& one : all) {
            BERTH_TRY(const auto said, c.output(one, script));
            if (said == "missing\n") return c.skip("the template has none");
            BERTH_CHECK(expect(seen.insert(said).second, "two of them have '{}'", said));
        }
        return {};
    };
    return {kGroup, std::move(name), {Operation::Snapshot}, run};
}

Status no_secrets(Context& c)
{
    BERTH_TRY(auto f, source(c));
    auto exec = Context::shell("echo ready; sleep 60");
    exec.env["TOKEN"] = "s3cr3t-of-the-source";
    const auto sandbox = World::handle(f.source);
    BERTH_CHECK(c.start(sandbox, exec));
    std::uint64_t from = 0;
    BERTH_TRY([[maybe_unused]] const auto ready, c.read_until(sandbox, exec.id, "ready", from));
    BERTH_TRY(const auto answer, fork_busy(c, f));
    if (!answer) return c.not_offered(kNoBusyForks);
    const auto forked = Lifecycle::handle(answer->forks[0]);
    BERTH_TRY(const auto seen,
              c.output(forked, "env; cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n'; "
                               "grep -rh s3cr3t-of-the-sour[c]e \"$HOME\" /tmp /var /run 2>/dev/null; true"));
    return lacks("what the fork sees", seen, "s3cr3t-of-the-source");
}

Status no_connections(Context& c)
{
    BERTH_TRY(auto server, listening(c, 7394));
    BERTH_TRY(auto client, connecting(c, "127.0.0.1", 7394));
    if (server.empty() || client.empty()) return c.skip("the template has no python3 or perl to listen with");
    BERTH_TRY(auto f, source(c));
    const auto sandbox = World::handle(f.source);
    const auto exec = Context::command(std::move(server));
    BERTH_CHECK(c.start(sandbox, exec));
    std::uint64_t from = 0;
    BERTH_TRY([[maybe_unused]] const auto ready, c.read_until(sandbox, exec.id, "listening", from));
    BERTH_TRY(const auto answer, fork_busy(c, f));
    if (!answer) return c.not_offered(kNoBusyForks);
    const auto forked = Lifecycle::handle(answer->forks[0]);
    BERTH_TRY(const auto ran, c.run(forked, Context::command(client)));
    return expect(!ran.outcome.status.success(), "the source's server answers in the fork");
}

Status of_a_busy_one(Context& c)
{
    BERTH_TRY(auto f, source(c));
    const auto sandbox = World::handle(f.source);
    const auto exec =
        Context::shell("i=0; while [ $i -lt 2000 ]; do echo $i; i=$((i+1)); done; sleep 0.5; exit 3");
    BERTH_CHECK(step("a command", c.await(f.world->life().exec(f.source.record, exec))));
    BERTH_TRY(const auto answer, fork_busy(c, f));
    if (!answer) return c.not_offered(kNoBusyForks);
    BERTH_TRY(const auto bytes, c.read(Lifecycle::handle(answer->forks[0]), f.file));
    BERTH_CHECK(same("the file", bytes, "work"));
    if (!answer->live_copy)
        return expect(!answer->notes.empty(), "that its processes were ended is not told");
    BERTH_TRY(const auto events, c.events(c.backend(), sandbox, exec.id));
    std::string out, want;
    for (const auto& event : events) out += event.bytes;
    for (int i = 0; i < 2000; ++i) want += fmt::format("{}\n", i);
    return same("the output of the source's command", out, want);
}

Status of_a_stopped_one(Context& c)
{
    BERTH_TRY(auto f, source(c));
    BERTH_TRY([[maybe_unused]] const auto stopped, c.await(f.world->life().stop(kKey, 0s)));
    BERTH_TRY(const auto forks, fork(c, f, 1));
    BERTH_TRY(const auto bytes, c.read(forks[0], f.file));
    BERTH_CHECK(same("the file", bytes, "work"));
    return in_state(*f.world, kKey, State::Stopped);
}

Status outlives(Context& c)
{
    BERTH_TRY(auto f, source(c));
    BERTH_TRY(const auto forks, fork(c, f, 1));
    BERTH_TRY([[maybe_unused]] const auto gone, c.await(f.world->life().destroy(kKey)));
    BERTH_TRY([[maybe_unused]] const auto actions, f.world->collect());
    BERTH_TRY(const auto said, c.output(forks[0], "cat " + f.file));
    return same("the file", said, "work");
}

Status none(Context& c)
{
    BERTH_TRY(auto f, source(c));
    BERTH_CHECK(
        refused("no fork", c.await(f.world->life().fork(kKey, {.count = 0, .name = {}})), Code::Invalid));
    return refused("a fork of nobody", c.await(f.world->life().fork("nobody", {.count = 1, .name = {}})),
                   Code::NotFound);
}

Status right_time(Context& c)
{
    BERTH_TRY(auto f, source(c));
    BERTH_TRY(const auto forks, fork(c, f, 1));
    BERTH_TRY(const auto said, c.output(forks[0], "date +%s"));
    const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    const auto there = static_cast<std::time_t>(std::stoll("0" + said));
    return expect(std::abs(now - there) <= 5, "its clock is {} seconds away", now - there);
}

Status goes_back(Context& c)
{
    BERTH_TRY(auto f, source(c));
    BERTH_TRY(const auto taken, c.await(f.world->life().snapshot(kKey, {})));
    BERTH_CHECK(c.write(World::handle(f.source), f.file, "later"));
    BERTH_TRY(const auto back, step("restoring", c.await(f.world->life().restore(taken.record.id, {}))));
    BERTH_CHECK(came_by(back, Tier::Restored));
    BERTH_CHECK(same("its id", back.record.id(), f.source.record.id()));
    BERTH_CHECK(same("its generation", back.record.generation, f.source.record.generation + 1));
    BERTH_TRY(const auto bytes, c.read(World::handle(back), f.file));
    BERTH_CHECK(same("the file", bytes, "work"));
    BERTH_TRY(const auto found, c.await(c.backend().inspect(World::handle(f.source))));
    return same("the health of the instance before", found.health, Health::Gone);
}

Status as_a_new_one(Context& c)
{
    BERTH_TRY(auto f, source(c));
    BERTH_TRY(const auto taken, c.await(f.world->life().snapshot(kKey, {})));
    BERTH_TRY(const auto made,
              step("restoring", c.await(f.world->life().restore(taken.record.id, {.as_new = true}))));
    BERTH_CHECK(expect(made.record.id() != f.source.record.id(), "it has the id of the source"));
    BERTH_TRY(const auto bytes, c.read(World::handle(made), f.file));
    BERTH_CHECK(same("the file", bytes, "work"));
    return in_state(*f.world, kKey, State::Running);
}

Status damaged_keeps_the_old(Context& c)
{
    BERTH_TRY(auto f, source(c));
    std::string kind;
    SnapshotAnswer taken;
    for (const auto& one : c.backend().capabilities().snapshots) {
        BERTH_TRY(taken, c.await(f.world->life().snapshot(kKey, {.kind = one, .note = {}})));
        if (!taken.record.file.empty()) kind = one;
        if (!kind.empty()) break;
    }
    if (kind.empty()) return c.skip("no kind of snapshot here keeps a file");
    const std::string path =
        fmt::format("{}/{}/{}", f.world->life().snapshot_directory(), taken.record.id, taken.record.file);
    const UniqueFd payload(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    BERTH_CHECK(write_all(payload.get(), "damaged"));
    BERTH_CHECK(
        refused("a damaged payload", c.await(f.world->life().restore(taken.record.id, {})), Code::Invalid));
    BERTH_CHECK(in_state(*f.world, kKey, State::Running));
    BERTH_TRY(const auto bytes, c.read(World::handle(f.source), f.file));
    return same("the file of the old one", bytes, "work");
}

Status forgotten(Context& c)
{
    BERTH_TRY(auto f, source(c));
    BERTH_TRY(const auto taken, c.await(f.world->life().snapshot(kKey, {})));
    BERTH_CHECK(step("removing it", c.await(f.world->life().remove_snapshot(taken.record.id))));
    BERTH_CHECK(
        refused("restoring it", c.await(f.world->life().restore(taken.record.id, {})), Code::NotFound));
    BERTH_TRY(const auto bytes, c.read(World::handle(f.source), f.file));
    return same("the file of the source", bytes, "work");
}

} // namespace

std::vector<Check> fork_checks()
{
    const std::vector<Need> needs{Operation::Snapshot};
    return {
        {kGroup, "a fork has the files, and they are its own", needs, have_the_files},
        differ("host names differ", "cat /proc/sys/kernel/hostname"),
        differ("machine ids differ", "[ -s /etc/machine-id ] && cat /etc/machine-id || echo missing"),
        differ("entropy differs", "head -c 16 /dev/urandom | cksum"),
        {kGroup, "an exec's secrets are not inherited", needs, no_secrets},
        {kGroup, "the source's servers do not answer in a fork", needs, no_connections},
        {kGroup, "forking a busy one loses no output", needs, of_a_busy_one},
        {kGroup,
         "a stopped one is forked and stays stopped",
         {Operation::Snapshot, Operation::Stop},
         of_a_stopped_one},
        {kGroup, "a fork outlives its source", needs, outlives},
        {kGroup, "no fork, and a fork of nobody, are refused", needs, none},
        {kGroup, "a fork knows the time", needs, right_time},
        {kGroup, "a restore goes back, as the next generation", needs, goes_back},
        {kGroup, "a restore as a new one leaves the old", needs, as_a_new_one},
        {kGroup, "a damaged snapshot keeps the old instance", needs, damaged_keeps_the_old},
        {kGroup, "a removed snapshot cannot be restored, and its source lives on", needs, forgotten},
    };
}

} // namespace berth::conformance

// The tiers: attached, started, restored, fresh. What is found again is the same, and what is lost is said.

#include <algorithm>

#include "conformance/check.hpp"
#include "conformance/side_by_side.hpp"
#include "conformance/world.hpp"

namespace berth::conformance {

namespace {

constexpr std::string_view kGroup = "resume";

const std::string kKey = "conversation:conformance:one";

/// A world in which one sandbox was acquired, with a file in it.
struct One {
    std::unique_ptr<World> world;
    Acquired first;
    std::string file;
};

Result<One> one(Context& c)
{
    One out;
    BERTH_TRY(out.world, World::make(c));
    BERTH_TRY(out.first, out.world->acquire(kKey));
    BERTH_TRY(out.file, c.at_home("kept"));
    BERTH_CHECK(c.write(World::handle(out.first), out.file, "work"));
    return out;
}

Status has_work(Context& c, const Acquired& acquired, const std::string& file)
{
    BERTH_TRY(const auto bytes, c.read(World::handle(acquired), file));
    return same("the file", bytes, "work");
}

Status fresh(Context& c)
{
    BERTH_TRY(const auto o, one(c));
    BERTH_CHECK(came_by(o.first, Tier::Fresh));
    BERTH_CHECK(in_state(*o.world, kKey, State::Running));
    BERTH_TRY(const auto created, o.world->told("sandbox_created", o.first.record.id()));
    BERTH_CHECK(same("creations told", created, std::size_t{1}));
    BERTH_TRY(const auto started, o.world->told("sandbox_started", o.first.record.id()));
    return same("starts told", started, std::size_t{1});
}

Status attached(Context& c)
{
    BERTH_TRY(const auto o, one(c));
    BERTH_TRY(const auto again, o.world->acquire(kKey));
    BERTH_CHECK(came_by(again, Tier::Attached));
    BERTH_CHECK(same("its id", again.record.id(), o.first.record.id()));
    BERTH_CHECK(same("its instance", again.record.native, o.first.record.native));
    return has_work(c, again, o.file);
}

Status second_process(Context& c)
{
    BERTH_TRY(const auto o, one(c));
    BERTH_TRY(auto* const other, o.world->process());
    BERTH_TRY(const auto again, c.await(other->lifecycle->acquire(o.world->request(kKey))));
    BERTH_CHECK(came_by(again, Tier::Attached));
    BERTH_CHECK(same("its id", again.record.id(), o.first.record.id()));
    BERTH_TRY(const auto created, o.world->told("sandbox_created"));
    BERTH_CHECK(same("creations told", created, std::size_t{1}));
    return has_work(c, again, o.file);
}

Status racing(Context& c)
{
    BERTH_TRY(const auto world, World::make(c));
    std::vector<Task<Result<Acquired>>> tasks;
    for (int i = 0; i < 3; ++i) {
        BERTH_TRY(auto* const process, world->process());
        tasks.push_back(process->lifecycle->acquire(world->request(kKey)));
        tasks.push_back(process->lifecycle->acquire(world->request(kKey)));
    }
    const auto all = await_all(c, std::move(tasks));
    std::size_t made = 0;
    for (const auto& one : all) {
        BERTH_CHECK(expect(one.has_value(), "one of them failed: {}", one ? "" : one.error().line()));
        BERTH_CHECK(same("its id", one->record.id(), all.front()->record.id()));
        made += one->tier == Tier::Fresh ? 1 : 0;
    }
    BERTH_CHECK(same("those who made it", made, std::size_t{1}));
    BERTH_TRY(const auto created, world->told("sandbox_created"));
    return same("creations told", created, std::size_t{1});
}

Status started(Context& c)
{
    BERTH_TRY(const auto o, one(c));
    BERTH_TRY(const auto stopped, c.await(o.world->life().stop(kKey, 1s)));
    BERTH_CHECK(same("its state", stopped.state, State::Stopped));
    BERTH_TRY(auto* const other, o.world->process());
    BERTH_TRY(const auto again, c.await(other->lifecycle->acquire(o.world->request(kKey))));
    BERTH_CHECK(came_by(again, Tier::Started));
    BERTH_CHECK(same("its id", again.record.id(), o.first.record.id()));
    BERTH_CHECK(same("its instance", again.record.native, o.first.record.native));
    BERTH_TRY(const auto created, o.world->told("sandbox_created"));
    BERTH_CHECK(same("creations told", created, std::size_t{1}));
    return has_work(c, again, o.file);
}

Status thawed(Context& c)
{
    BERTH_TRY(const auto o, one(c));
    BERTH_TRY(const auto paused, c.await(o.world->life().pause(kKey)));
    BERTH_CHECK(same("its state", paused.state, State::Paused));
    BERTH_TRY(const auto again, o.world->acquire(kKey));
    BERTH_CHECK(came_by(again, Tier::Started));
    BERTH_CHECK(in_state(*o.world, kKey, State::Running));
    return has_work(c, again, o.file);
}

Status restored(Context& c)
{
    BERTH_TRY(const auto o, one(c));
    BERTH_TRY(const auto taken, step("a snapshot", c.await(o.world->life().snapshot(kKey, {}))));
    BERTH_CHECK(o.world->lose(o.first));
    BERTH_TRY(const auto again, o.world->acquire(kKey));
    BERTH_CHECK(came_by(again, Tier::Restored));
    BERTH_CHECK(same("its id", again.record.id(), o.first.record.id()));
    BERTH_CHECK(same("the snapshot told", again.snapshot, taken.record.id));
    BERTH_CHECK(same("its generation", again.record.generation, o.first.record.generation + 1));
    BERTH_CHECK(expect(again.lost.has_value(), "what was lost is not told"));
    BERTH_TRY(const auto recovered, o.world->told("berth.sandbox_recovered", again.record.id()));
    BERTH_CHECK(same("recoveries told", recovered, std::size_t{1}));
    return has_work(c, again, o.file);
}

Status fresh_after_a_loss(Context& c)
{
    BERTH_TRY(const auto o, one(c));
    BERTH_CHECK(o.world->lose(o.first));
    BERTH_TRY(const auto again, o.world->acquire(kKey));
    BERTH_CHECK(came_by(again, Tier::Fresh));
    BERTH_CHECK(
        expect(again.record.id() != o.first.record.id(), "the lost one has a successor of the same id"));
    BERTH_CHECK(expect(!again.notes.empty(), "the loss is not told"));
    BERTH_TRY(const auto lost, o.world->told("berth.sandbox_lost", o.first.record.id()));
    BERTH_CHECK(same("losses told", lost, std::size_t{1}));
    return refused("the lost file", c.read(World::handle(again), o.file), Code::NotFound);
}

Status loss_as_an_error(Context& c)
{
    BERTH_TRY(const auto o, one(c));
    BERTH_CHECK(o.world->lose(o.first));
    auto request = o.world->request(kKey);
    request.on_loss = OnStateLoss::Error;
    BERTH_CHECK(refused("acquiring it", c.await(o.world->life().acquire(request)), Code::NotFound));
    BERTH_CHECK(refused("using it", c.await(o.world->life().use(o.first.record.id())), Code::NotFound));
    BERTH_TRY(const auto created, o.world->told("sandbox_created"));
    return same("creations told", created, std::size_t{1});
}

Status outage(Context& c)
{
    BERTH_TRY(const auto o, one(c));
    *o.world->outage = true;
    BERTH_CHECK(
        refused("acquiring it", c.await(o.world->life().acquire(o.world->request(kKey))), Code::Unavailable));
    BERTH_CHECK(refused("resuming it", c.await(o.world->life().try_resume(kKey)), Code::Unavailable));
    BERTH_CHECK(refused("using it", c.await(o.world->life().use(kKey)), Code::Unavailable));
    *o.world->outage = false;
    BERTH_TRY(const auto again, o.world->acquire(kKey));
    BERTH_CHECK(came_by(again, Tier::Attached));
    BERTH_CHECK(same("its id", again.record.id(), o.first.record.id()));
    BERTH_TRY(const auto created, o.world->told("sandbox_created"));
    BERTH_CHECK(same("creations told", created, std::size_t{1}));
    return has_work(c, again, o.file);
}

Status nothing_to_resume(Context& c)
{
    BERTH_TRY(const auto world, World::make(c));
    BERTH_TRY(const auto none, c.await(world->life().try_resume("conversation:nobody:knows")));
    BERTH_CHECK(expect(!none, "something was resumed"));
    BERTH_TRY(const auto created, world->told("sandbox_created"));
    return same("creations told", created, std::size_t{0});
}

Status superseded(Context& c)
{
    BERTH_TRY(const auto o, one(c));
    auto request = o.world->request(kKey);
    request.spec.env["CHANGED"] = "yes";
    BERTH_TRY(const auto next, c.await(o.world->life().acquire(request)));
    BERTH_CHECK(came_by(next, Tier::Fresh));
    BERTH_CHECK(expect(next.record.id() != o.first.record.id(), "it is still the old one"));
    BERTH_TRY(const auto old, c.await(o.world->life().find(o.first.record.id())));
    BERTH_CHECK(same("what it was superseded by", old.superseded_by, next.record.id()));
    BERTH_TRY([[maybe_unused]] const auto actions, o.world->collect());
    return has_work(c, o.first, o.file);
}

Status named(Context& c)
{
    BERTH_TRY(const auto world, World::make(c));
    auto request = world->request({});
    request.spec.name = "conformance-name";
    BERTH_TRY(const auto first, c.await(world->life().acquire(request)));
    BERTH_TRY(const auto again, c.await(world->life().acquire(request)));
    BERTH_CHECK(same("its id", again.record.id(), first.record.id()));
    BERTH_TRY(const auto found, c.await(world->life().find("conformance-name")));
    BERTH_CHECK(same("what its name finds", found.id(), first.record.id()));
    request.spec.env["CHANGED"] = "yes";
    return refused("the name with another configuration", c.await(world->life().acquire(request)),
                   Code::Conflict);
}

Status named_and_stopped(Context& c)
{
    BERTH_TRY(const auto world, World::make(c));
    auto request = world->request({});
    request.spec.name = "conformance-name";
    BERTH_TRY(const auto first, c.await(world->life().acquire(request)));
    BERTH_TRY([[maybe_unused]] const auto stopped, c.await(world->life().stop("conformance-name", 0s)));
    BERTH_TRY(const auto again, c.await(world->life().acquire(request)));
    BERTH_CHECK(came_by(again, Tier::Started));
    return same("its id", again.record.id(), first.record.id());
}

Status bad_keys(Context& c)
{
    BERTH_TRY(const auto world, World::make(c));
    for (const std::string key : {"a\nb", "a\x01", "\x7f", "\xff"})
        BERTH_CHECK(refused("a bad key", c.await(world->life().acquire(world->request(key))), Code::Invalid));
    BERTH_CHECK(refused("a key with a NUL", c.await(world->life().acquire(world->request({'a', '\0', 'b'}))),
                        Code::Invalid));
    return refused("a key of a kilobyte",
                   c.await(world->life().acquire(world->request(std::string(1024, 'k')))), Code::Invalid);
}

Status found_by(Context& c)
{
    BERTH_TRY(const auto o, one(c));
    const std::string id = o.first.record.id();
    for (const auto& ref : {id, kKey, id.substr(0, id.size() - 3)}) {
        BERTH_TRY(const auto found, c.await(o.world->life().find(ref)));
        BERTH_CHECK(same("what " + ref + " finds", found.id(), id));
    }
    return refused("what nobody is called", c.await(o.world->life().find("nobody")), Code::NotFound);
}

Status destroyed(Context& c)
{
    BERTH_TRY(const auto o, one(c));
    for (int i = 0; i < 2; ++i) {
        BERTH_TRY(const auto gone,
                  step("destroying it", c.await(o.world->life().destroy(o.first.record.id()))));
        BERTH_CHECK(same("its state", gone.state, State::Destroyed));
    }
    BERTH_TRY(const auto again, o.world->acquire(kKey));
    BERTH_CHECK(came_by(again, Tier::Fresh));
    BERTH_CHECK(expect(again.record.id() != o.first.record.id(), "it is the old one"));
    return refused("a file of the old one", c.read(World::handle(again), o.file), Code::NotFound);
}

Status exec_goes_on(Context& c)
{
    BERTH_TRY(const auto o, one(c));
    const auto exec =
        Context::shell("i=0; while [ $i -lt 30 ]; do echo $i; sleep 0.02; i=$((i+1)); done; exit 7");
    BERTH_CHECK(step("a command", c.await(o.world->life().exec(o.first.record, exec))));
    // Whoever started it is never heard of again.
    BERTH_TRY(auto* const other, o.world->process());
    BERTH_TRY(const auto again, c.await(other->lifecycle->acquire(o.world->request(kKey))));
    BERTH_TRY(const auto found, c.await(other->lifecycle->find_exec(again.record, {})));
    BERTH_CHECK(same("the exec found", found.id, exec.id));
    BERTH_TRY(auto* const by, c.await(other->lifecycle->backend(again.record.backend)));
    BERTH_TRY(const auto ran, c.follow(*by, World::handle(again), exec));
    BERTH_CHECK(exited(ran, 7));
    BERTH_CHECK(
        expect(ran.out.starts_with("0\n") && ran.out.ends_with("29\n"), "some of its output is lost"));
    BERTH_TRY(const auto running, c.await(other->lifecycle->settle_execs(again.record)));
    BERTH_CHECK(same("execs that still run", running.size(), std::size_t{0}));
    BERTH_TRY(const auto all, other->store->execs(again.record.id(), false));
    return same("its end in the store", all.front().outcome, "exit 7");
}

Status generation_gone(Context& c)
{
    BERTH_TRY(const auto o, one(c));
    const auto exec = Context::shell("echo old");
    BERTH_CHECK(step("a command", c.await(o.world->life().exec(o.first.record, exec))));
    BERTH_TRY([[maybe_unused]] const auto ran, c.follow(c.backend(), World::handle(o.first), exec));
    BERTH_TRY([[maybe_unused]] const auto taken, c.await(o.world->life().snapshot(kKey, {})));
    BERTH_CHECK(o.world->lose(o.first));
    BERTH_TRY(const auto again, o.world->acquire(kKey));
    const auto found = c.await(o.world->life().find_exec(again.record, exec.id));
    BERTH_CHECK(refused("an exec of the generation before", found, Code::NotFound));
    return contains("the refusal", found.error().message, "generation");
}

Status seen_from_behind(Context& c)
{
    BERTH_TRY(const auto o, one(c));
    BERTH_CHECK(step("stopping it", c.await(c.backend().stop(World::handle(o.first), 0ms))));
    BERTH_CHECK(in_state(*o.world, kKey, State::Stopped));
    BERTH_TRY(const auto again, o.world->acquire(kKey));
    BERTH_CHECK(came_by(again, Tier::Started));
    return has_work(c, again, o.file);
}

Status borrowed(Context& c)
{
    BERTH_TRY(const auto world, World::make(c));
    BERTH_TRY(const auto theirs, c.own());
    auto& life = world->life();
    BERTH_TRY(const auto taken,
              step("borrowing it", c.await(life.attach(c.place().options().backend, theirs.native, {}))));
    BERTH_CHECK(came_by(taken, Tier::Attached));
    const std::string id = taken.record.id();
    BERTH_CHECK(refused("stopping a borrowed one", c.await(life.stop(id, 0s)), Code::Denied));
    BERTH_CHECK(refused("destroying a borrowed one", c.await(life.destroy(id)), Code::Denied));
    for (int i = 0; i < 2; ++i) {
        BERTH_TRY(const auto let_go, step("letting it go", c.await(life.detach(id))));
        BERTH_CHECK(same("its state", let_go.state, State::Detached));
    }
    BERTH_TRY(const auto said, c.output(theirs, "echo lives"));
    return same("the borrowed one afterwards", said, "lives\n");
}

} // namespace

std::vector<Check> resume_checks()
{
    return {
        {kGroup, "a new key gets a fresh sandbox", {}, fresh},
        {kGroup, "a running one is attached", {}, attached},
        {kGroup, "a second process attaches and tells no second creation", {}, second_process},
        {kGroup, "processes that race get one sandbox", {}, racing},
        {kGroup, "a stopped one is started with its files", {Operation::Stop}, started},
        {kGroup, "a paused one is resumed", {Operation::Pause}, thawed},
        {kGroup,
         "a lost one is restored from its snapshot, and the loss told",
         {Operation::Snapshot},
         restored},
        {kGroup,
         "a lost one without a snapshot is followed by a fresh one, and the loss told",
         {},
         fresh_after_a_loss},
        {kGroup, "a loss is an error where that is asked for", {}, loss_as_an_error},
        {kGroup, "a backend out of reach is an error, never an empty sandbox", {}, outage},
        {kGroup, "a key nobody has resumes nothing and makes nothing", {}, nothing_to_resume},
        {kGroup, "another specification supersedes, and the old one is kept", {}, superseded},
        {kGroup, "a name finds its sandbox, and conflicts with another configuration", {}, named},
        {kGroup, "a name finds its stopped sandbox", {Operation::Stop}, named_and_stopped},
        {kGroup, "a key with control characters or without end is invalid", {}, bad_keys},
        {kGroup, "id, prefix and key find it", {}, found_by},
        {kGroup, "a destroyed one frees its key", {}, destroyed},
        {kGroup, "an exec goes on when its starter is gone, and its end is recorded", {}, exec_goes_on},
        {kGroup, "an exec of an older generation is gone with it", {Operation::Snapshot}, generation_gone},
        {kGroup, "a borrowed one is let go, never stopped or destroyed", {Operation::Attach}, borrowed},
        {kGroup, "what happened behind the store's back is seen", {Operation::Stop}, seen_from_behind},
    };
}

} // namespace berth::conformance

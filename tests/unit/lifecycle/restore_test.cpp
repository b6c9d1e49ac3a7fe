// A snapshot that was made in one place and is restored in another.

#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "place.hpp"
#include "store/sqlite/connection.hpp"

namespace berth {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class Restore : public LifecycleTest {
protected:
    Restore()
    {
        there_->name = "there";
        poor_->name = "poor";
        poor_->restores = {"poor"};
    }
    std::unique_ptr<Process> three_backends()
    {
        auto out = process();
        for (const auto& other : {there_, poor_})
            out->registry.add(other->name,
                              [other](const BackendOptions&) -> Result<std::unique_ptr<Backend>> {
                                  return std::make_unique<WorldBackend>(other);
                              });
        return out;
    }
    static SnapshotRecord taken(Process& process)
    {
        must(run_task(process.lifecycle->acquire(wish("demo"))));
        auto out = run_task(process.lifecycle->snapshot("demo", {}));
        EXPECT_TRUE(out) << out.error().line();
        return out ? out->record : SnapshotRecord{};
    }
    static RestoreWish on(std::string backend)
    {
        RestoreWish out;
        out.backend = std::move(backend);
        return out;
    }

    std::shared_ptr<World> there_ = std::make_shared<World>();
    std::shared_ptr<World> poor_ = std::make_shared<World>();
};

TEST_F(Restore, MakesANewSandboxOnAnotherBackend)
{
    auto one = three_backends();
    const auto snapshot = taken(*one);
    const auto made = must(run_task(one->lifecycle->restore(snapshot.id, on("there"))));
    EXPECT_EQ(made.tier, Tier::Restored);
    EXPECT_EQ(made.record.backend, "there");
    EXPECT_NE(made.record.id(), snapshot.sandbox) << "the old one lives, and is another";
    ASSERT_TRUE(there_->instances.contains(made.record.native));
    EXPECT_EQ(there_->instances.at(made.record.native).from, snapshot.id);
    EXPECT_EQ(world_->instances.size(), 1u);
    EXPECT_EQ(run_task(one->lifecycle->find("demo"))->backend, "world");
}

TEST_F(Restore, ABackendThatDoesNotKnowTheKindIsRefusedBeforeAnythingIsMade)
{
    auto one = three_backends();
    const auto snapshot = taken(*one);
    const auto refused = run_task(one->lifecycle->restore(snapshot.id, on("poor")));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Unsupported);
    EXPECT_THAT(refused.error().message, HasSubstr("is a world: backend poor restores poor"));
    EXPECT_THAT(refused.error().message, HasSubstr("it can be restored on there, world"));
    EXPECT_THAT(poor_->instances, IsEmpty());
    EXPECT_EQ(one->store->list({.with_dead = true})->size(), 1u) << "not even a record of it";
    EXPECT_EQ(run_task(one->lifecycle->restore(snapshot.id, on("nowhere"))).error().code, Code::Unsupported);
}

TEST_F(Restore, APolicyThatTheOtherBackendDoesNotHoldIsRefusedBeforeAnythingIsMade)
{
    auto one = three_backends();
    const auto snapshot = taken(*one);
    there_->holds = false;
    EXPECT_FALSE(run_task(one->lifecycle->restore(snapshot.id, on("there"))));
    EXPECT_EQ(one->store->list({.with_dead = true})->size(), 1u);
}

TEST_F(Restore, StandsOnWhatItIsToldTo)
{
    auto one = three_backends();
    const auto snapshot = taken(*one);
    auto wanted = on("there");
    wanted.root = Template{.kind = Template::Kind::Image, .path = "debian:12", .tag = {}};
    const auto made = must(run_task(one->lifecycle->restore(snapshot.id, wanted)));
    EXPECT_EQ(there_->instances.at(made.record.native).spec.root, *wanted.root);
}

/// Its maker died: whoever asks for it finishes it where it was to be.
TEST_F(Restore, WhatWasNeverFinishedIsFinishedOnTheOtherBackend)
{
    auto one = three_backends();
    const auto snapshot = taken(*one);
    const auto made = must(run_task(one->lifecycle->restore(snapshot.id, on("there"))));
    auto record = made.record;
    record.state = State::Creating;
    ASSERT_TRUE(one->store->update(record, {}));
    there_->instances.clear();
    world_->restores.clear(); // where the snapshot is from nothing can be restored now
    const auto used = run_task(one->lifecycle->use(record.id()));
    ASSERT_TRUE(used) << used.error().line();
    EXPECT_EQ(there_->instances.at(used->record.native).from, snapshot.id);
}

TEST_F(Restore, OfOneThatIsRemovedMeanwhileDoesNotBringItsIdBack)
{
    auto one = process();
    const auto snapshot = taken(*one);
    auto removing = KeyLock::try_take(data_ + "/lock", "key:demo");
    ASSERT_TRUE(removing && *removing);
    const UniqueFd opened(::inotify_init1(IN_CLOEXEC));
    ASSERT_GE(::inotify_add_watch(opened.get(), (data_ + "/lock").c_str(), IN_OPEN), 0);
    std::optional<Result<Acquired>> answer;
    std::jthread waits([&] { answer.emplace(run_task(one->lifecycle->restore(snapshot.id, {}))); });
    std::array<char, 4096> event{};
    EXPECT_GT(::read(opened.get(), event.data(), event.size()), 0)
        << "it has seen it alive, and asks for the lock";
    auto record = **one->store->find(snapshot.sandbox);
    record.state = State::Destroyed;
    EXPECT_TRUE(one->store->update(record, {}));
    removing->reset();
    waits.join();
    ASSERT_FALSE(*answer);
    EXPECT_EQ(answer->error().code, Code::Conflict);
    EXPECT_EQ((*one->store->find(snapshot.sandbox))->state, State::Destroyed);
}

/// A disk that is full in the middle, say.
TEST_F(Restore, ForksOfWhichOneCannotBeRecordedAreNone)
{
    auto one = process();
    must(run_task(one->lifecycle->acquire(wish("demo"))));
    auto db = store::Connection::open(data_ + "/store.db");
    ASSERT_TRUE(db);
    for (const std::string when : {"INSERT ON sandbox WHEN NEW.name='try-2'",
                                   "UPDATE ON sandbox WHEN NEW.name='try-2' AND NEW.state='running'"}) {
        ASSERT_TRUE(db->execute(
            ("CREATE TRIGGER full BEFORE " + when + " BEGIN SELECT RAISE(ABORT, 'full'); END").c_str()));
        EXPECT_FALSE(run_task(one->lifecycle->fork("demo", {.count = 3, .name = "try"})));
        EXPECT_EQ(world_->instances.size(), 1u) << when;
        EXPECT_EQ(one->store->list({})->size(), 1u) << when;
        EXPECT_THAT(*one->store->snapshots({}), IsEmpty()) << when;
        ASSERT_TRUE(db->execute("DROP TRIGGER full"));
    }
    const auto forked = run_task(one->lifecycle->fork("demo", {.count = 3, .name = "try"}));
    EXPECT_TRUE(forked) << forked.error().line();
}

} // namespace
} // namespace berth

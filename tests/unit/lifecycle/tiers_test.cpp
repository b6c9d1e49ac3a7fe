#include "lifecycle/begins_with.hpp"
#include "place.hpp"

#include "lifecycle/client.hpp"
#include "store/sqlite/connection.hpp"

namespace berth {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class Tiers : public LifecycleTest {};

TEST_F(Tiers, TheFirstOfAKeyIsFreshAndTheNextProcessAttaches)
{
    auto one = process(), two = process();
    const auto first = must(run_task(one->lifecycle->acquire(wish("demo"))));
    EXPECT_EQ(first.tier, Tier::Fresh);
    const auto second = must(run_task(two->lifecycle->acquire(wish("demo"))));
    EXPECT_EQ(second.tier, Tier::Attached);
    EXPECT_EQ(second.record.id(), first.record.id());
    EXPECT_EQ(world_->creates, 1u);
    EXPECT_EQ(told(*two, "sandbox_created"), 1u);
}

TEST_F(Tiers, AStoppedOneIsStartedWithTheSameInstance)
{
    auto one = process();
    const auto made = must(run_task(one->lifecycle->acquire(wish("demo"))));
    ASSERT_TRUE(run_task(one->lifecycle->stop("demo", 0ms)));
    auto two = process();
    const auto again = must(run_task(two->lifecycle->acquire(wish("demo"))));
    EXPECT_EQ(again.tier, Tier::Started);
    EXPECT_EQ(again.record.native, made.record.native);
    EXPECT_EQ(again.record.generation, 1u);
    EXPECT_EQ(told(*two, "sandbox_created"), 1u);
}

TEST_F(Tiers, APausedOneIsThawed)
{
    auto one = process();
    must(run_task(one->lifecycle->acquire(wish("demo"))));
    ASSERT_TRUE(run_task(one->lifecycle->pause("demo")));
    EXPECT_EQ(must(run_task(one->lifecycle->acquire(wish("demo")))).tier, Tier::Started);
    EXPECT_EQ(run_task(one->lifecycle->find("demo"))->state, State::Running);
}

TEST_F(Tiers, AGoneOneIsRestoredUnderTheSameLogicalId)
{
    auto one = process();
    const auto made = must(run_task(one->lifecycle->acquire(wish("demo"))));
    const auto taken = run_task(one->lifecycle->snapshot("demo", {}));
    ASSERT_TRUE(taken) << taken.error().line();
    world_->instances.clear();
    auto two = process();
    const auto again = must(run_task(two->lifecycle->acquire(wish("demo"))));
    EXPECT_EQ(again.tier, Tier::Restored);
    EXPECT_EQ(again.snapshot, taken->record.id);
    EXPECT_EQ(again.record.id(), made.record.id());
    EXPECT_NE(again.record.native, made.record.native);
    EXPECT_EQ(again.record.generation, 2u);
    EXPECT_EQ(world_->instances.at(again.record.native).from, taken->record.id);
    EXPECT_EQ(told(*two, "sandbox_created"), 1u);
    EXPECT_EQ(told(*two, "berth.sandbox_lost"), 1u);
    EXPECT_EQ(told(*two, "berth.sandbox_recovered"), 1u);
    EXPECT_THAT(again.notes, Not(IsEmpty()));
}

TEST_F(Tiers, AGoneOneWithoutASnapshotIsAnotherSandboxAndSaysSo)
{
    auto one = process();
    const auto made = must(run_task(one->lifecycle->acquire(wish("demo"))));
    world_->instances.clear();
    const auto again = must(run_task(one->lifecycle->acquire(wish("demo"))));
    EXPECT_EQ(again.tier, Tier::Fresh);
    EXPECT_NE(again.record.id(), made.record.id());
    ASSERT_THAT(again.notes, Not(IsEmpty()));
    EXPECT_THAT(again.notes.front(), HasSubstr(made.record.id()));
    EXPECT_EQ(run_task(one->lifecycle->find(made.record.id()))->state, State::Destroyed);
}

TEST_F(Tiers, AnOutageIsAnErrorAndNeverAnEmptySandbox)
{
    auto one = process();
    must(run_task(one->lifecycle->acquire(wish("demo"))));
    world_->outage = true;
    const auto asked = run_task(one->lifecycle->acquire(wish("demo")));
    ASSERT_FALSE(asked);
    EXPECT_EQ(asked.error().code, Code::Unavailable);
    EXPECT_EQ(run_task(one->lifecycle->try_resume("demo")).error().code, Code::Unavailable);
    world_->outage = false;
    EXPECT_EQ(must(run_task(one->lifecycle->acquire(wish("demo")))).tier, Tier::Attached);
    EXPECT_EQ(world_->creates, 1u);
}

TEST_F(Tiers, OneSlowAnswerDiscardsNothing)
{
    auto one = process();
    const auto made = must(run_task(one->lifecycle->acquire(wish("demo"))));
    world_->unresponsive = 1;
    const auto again = must(run_task(one->lifecycle->acquire(wish("demo"))));
    EXPECT_EQ(again.tier, Tier::Attached);
    EXPECT_EQ(again.record.id(), made.record.id());
}

TEST_F(Tiers, StateLossCanBeRefused)
{
    auto one = process();
    must(run_task(one->lifecycle->acquire(wish("demo"))));
    world_->instances.clear();
    auto strict = wish("demo");
    strict.on_loss = OnStateLoss::Error;
    EXPECT_EQ(run_task(one->lifecycle->acquire(strict)).error().code, Code::NotFound);
    EXPECT_EQ(world_->creates, 1u);
}

TEST_F(Tiers, ASnapshotOfAKindNobodyRestoresIsAnErrorThatNamesBoth)
{
    auto one = process();
    must(run_task(one->lifecycle->acquire(wish("demo"))));
    ASSERT_TRUE(run_task(one->lifecycle->snapshot("demo", {})));
    world_->instances.clear();
    world_->restores = {"other_kind"};
    const auto asked = run_task(one->lifecycle->acquire(wish("demo")));
    ASSERT_FALSE(asked);
    EXPECT_EQ(asked.error().code, Code::Unsupported);
    EXPECT_THAT(asked.error().message, HasSubstr("other_kind"));
    EXPECT_THAT(asked.error().message, HasSubstr("world"));
    EXPECT_EQ(world_->creates, 1u);
    auto easy = wish("demo");
    easy.on_loss = OnStateLoss::Fresh;
    EXPECT_EQ(must(run_task(one->lifecycle->acquire(easy))).tier, Tier::Fresh);
}

TEST_F(Tiers, AnotherSpecSupersedesAndKeepsTheOldOne)
{
    auto one = process();
    const auto made = must(run_task(one->lifecycle->acquire(wish("demo"))));
    auto other = wish("demo");
    other.spec.env["A"] = "b";
    const auto next = must(run_task(one->lifecycle->acquire(other)));
    EXPECT_EQ(next.tier, Tier::Fresh);
    EXPECT_NE(next.record.id(), made.record.id());
    EXPECT_TRUE(world_->instances.contains(made.record.native)) << "unsaved work is not destroyed by an edit";
    EXPECT_EQ(run_task(one->lifecycle->find(made.record.id()))->superseded_by, next.record.id());
    EXPECT_EQ(told(*one, "berth.sandbox_superseded"), 1u);
    EXPECT_EQ(run_task(one->lifecycle->find("demo"))->id(), next.record.id());
}

TEST_F(Tiers, WhatIsLostAndSupersededIsNotSaidToBeKept)
{
    auto one = process();
    const auto made = must(run_task(one->lifecycle->acquire(wish("demo"))));
    const auto taken = run_task(one->lifecycle->snapshot("demo", {}));
    ASSERT_TRUE(taken) << taken.error().line();
    world_->instances.clear();
    ASSERT_TRUE(run_task(one->lifecycle->refresh("demo")));
    auto other = wish("demo");
    other.spec.env["A"] = "b";
    const auto next = must(run_task(one->lifecycle->acquire(other)));
    EXPECT_EQ(run_task(one->lifecycle->find(made.record.id()))->state, State::Destroyed);
    EXPECT_THAT(next.notes,
                ElementsAre(AllOf(HasSubstr(made.record.id() + " had the key"), HasSubstr("was lost"),
                                  HasSubstr(taken->record.id), Not(HasSubstr("kept for a day")))));
    EXPECT_THAT(json::dump(one->store->ledger({.type = "berth.sandbox_destroyed"})->back().data),
                HasSubstr(taken->record.id));
}

TEST_F(Tiers, WhatCannotBeMadeSupersedesNothing)
{
    auto one = process();
    const auto made = must(run_task(one->lifecycle->acquire(wish("demo"))));
    auto other = wish("demo");
    other.spec.env["A"] = "b";
    world_->create_fails = true;
    EXPECT_EQ(run_task(one->lifecycle->acquire(other)).error().code, Code::Exhausted);
    EXPECT_EQ(run_task(one->lifecycle->find("demo"))->id(), made.record.id());
    EXPECT_EQ(told(*one, "berth.sandbox_superseded"), 0u);
    world_->create_fails = false;
    EXPECT_NE(must(run_task(one->lifecycle->acquire(other))).record.id(), made.record.id());
}

TEST_F(Tiers, WhatIsMadeFromATemplateDoesNotEndWithTheTimeOfItsBuild)
{
    auto one = process();
    auto build = wish("build");
    build.retention.lifetime = 1h;
    must(run_task(one->lifecycle->acquire(build)));
    const auto built = run_task(one->lifecycle->snapshot("build", {.kind = {}, .note = "template mine"}));
    const auto other = run_task(one->lifecycle->snapshot("build", {.kind = {}, .note = "as it was"}));
    ASSERT_TRUE(built && other);
    ASSERT_TRUE(run_task(one->lifecycle->destroy("build")));
    const auto made = must(run_task(one->lifecycle->restore(built->record.id, {.as_new = true})));
    EXPECT_FALSE(made.record.retention.lifetime);
    const auto again = must(run_task(one->lifecycle->restore(other->record.id, {.as_new = true})));
    EXPECT_EQ(again.record.retention.lifetime, 1h);
}

TEST_F(Tiers, WhatBeginsWithASnapshotIsMadeFromItAndFoundByIt)
{
    auto one = process();
    must(run_task(one->lifecycle->acquire(wish("source"))));
    const auto taken = run_task(one->lifecycle->snapshot("source", {}));
    ASSERT_TRUE(taken) << taken.error().line();
    auto asked = wish("demo");
    asked.spec.labels[std::string(kBeginsWithLabel)] = taken->record.id;
    const auto made = must(run_task(one->lifecycle->acquire(asked)));
    EXPECT_EQ(made.tier, Tier::Fresh);
    EXPECT_EQ(made.record.latest_snapshot, taken->record.id);
    EXPECT_EQ(world_->instances.at(made.record.native).from, taken->record.id);
    const auto other = process();
    const auto again = must(run_task(other->lifecycle->acquire(asked)));
    EXPECT_EQ(again.record.id(), made.record.id());
    const auto plain = must(run_task(other->lifecycle->acquire(wish("demo"))));
    EXPECT_NE(plain.record.id(), made.record.id()) << "without it another sandbox is meant";
    EXPECT_EQ(world_->instances.at(plain.record.native).from, "");
    asked.key = "nobody";
    asked.spec.labels[std::string(kBeginsWithLabel)] = "snap_00000000000000000000000000";
    const auto refused = run_task(one->lifecycle->acquire(asked));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::NotFound);
}

TEST_F(Tiers, NobodyWaitsForWhatIsMadeFromAThrowAwaySandbox)
{
    auto one = process();
    auto run = wish("run");
    run.spec.labels[std::string(kClientLabel)] = "run";
    run.spec.labels["mine"] = "yes";
    must(run_task(one->lifecycle->acquire(run)));
    const auto taken = run_task(one->lifecycle->snapshot("run", {}));
    ASSERT_TRUE(taken);
    const auto restored = must(run_task(one->lifecycle->restore(taken->record.id, {.as_new = true})));
    const auto forked = run_task(one->lifecycle->fork("run", {}));
    ASSERT_TRUE(forked) << forked.error().line();
    for (const auto& labels : {restored.record.spec.labels, forked->forks.front().spec.labels}) {
        EXPECT_FALSE(labels.contains(std::string(kClientLabel)));
        EXPECT_TRUE(labels.contains("mine"));
    }
}

TEST_F(Tiers, TheKeyMovesWhenTheNewOneIsAccepted)
{
    auto one = process();
    const auto made = must(run_task(one->lifecycle->acquire(wish("demo"))));
    auto other = wish("demo");
    other.spec.env["A"] = "b";
    std::string judged;
    bool good = false;
    other.accept = [&](SandboxRecord record) -> Task<Status> {
        judged = record.id();
        EXPECT_TRUE(world_->instances.contains(record.native));
        EXPECT_EQ(one->store->find_key("demo").value()->id(), made.record.id());
        if (!good) co_return fail(Code::Unsupported, "not good enough");
        co_return Status{};
    };
    EXPECT_EQ(run_task(one->lifecycle->acquire(other)).error().code, Code::Unsupported);
    EXPECT_EQ(run_task(one->lifecycle->find("demo"))->id(), made.record.id());
    EXPECT_EQ(told(*one, "berth.sandbox_superseded"), 0u);
    EXPECT_EQ(run_task(one->lifecycle->find(judged))->state, State::Failed);
    EXPECT_FALSE(world_->instances.contains(judged));
    good = true;
    const auto next = must(run_task(one->lifecycle->acquire(other)));
    EXPECT_EQ(next.record.id(), judged);
    EXPECT_EQ(run_task(one->lifecycle->find("demo"))->id(), judged);
    judged.clear();
    EXPECT_EQ(must(run_task(one->lifecycle->acquire(other))).tier, Tier::Attached);
    EXPECT_EQ(judged, "") << "one that is somebody's is not judged again";
}

TEST_F(Tiers, AFirstOneThatIsNotAcceptedHasNoKey)
{
    auto one = process();
    auto wanted = wish("demo");
    wanted.accept = [](SandboxRecord) -> Task<Status> { co_return fail(Code::Unsupported, "no"); };
    EXPECT_EQ(run_task(one->lifecycle->acquire(wanted)).error().code, Code::Unsupported);
    EXPECT_EQ(run_task(one->lifecycle->find("demo")).error().code, Code::NotFound);
    EXPECT_TRUE(world_->instances.empty());
}

TEST_F(Tiers, WhatIsRefusedIsNeverRecorded)
{
    auto one = process();
    auto open = wish("demo");
    open.spec.policy.network = policy::Network::Open;
    EXPECT_EQ(run_task(one->lifecycle->acquire(open)).error().code, Code::Unsupported);
    auto named = wish("demo", "no such/name");
    EXPECT_EQ(run_task(one->lifecycle->acquire(named)).error().code, Code::Invalid);
    EXPECT_TRUE(one->store->list({.with_dead = true})->empty());
}

TEST_F(Tiers, ANameThatIsAnothersKeyStandsForNeither)
{
    auto one = process();
    const auto keyed = must(run_task(one->lifecycle->acquire(wish("demo"))));
    const auto named = must(run_task(one->lifecycle->acquire(wish({}, "demo"))));
    ASSERT_NE(keyed.record.id(), named.record.id());
    EXPECT_EQ(run_task(one->lifecycle->find("demo")).error().code, Code::Conflict);
    EXPECT_EQ(run_task(one->lifecycle->find(named.record.id()))->id(), named.record.id());
    const auto both = must(run_task(one->lifecycle->acquire(wish("same", "same"))));
    EXPECT_EQ(run_task(one->lifecycle->find("same"))->id(), both.record.id());
}

TEST_F(Tiers, ANameStandsForOneConfiguration)
{
    auto one = process();
    const auto made = must(run_task(one->lifecycle->acquire(wish({}, "box"))));
    ASSERT_TRUE(run_task(one->lifecycle->stop("box", 0ms)));
    EXPECT_EQ(must(run_task(one->lifecycle->acquire(wish({}, "box")))).record.id(), made.record.id());
    auto other = wish({}, "box");
    other.spec.env["A"] = "b";
    EXPECT_EQ(run_task(one->lifecycle->acquire(other)).error().code, Code::Conflict);
}

TEST_F(Tiers, AFailedCreateLeavesAFailedRecordAndTheKeyFree)
{
    auto one = process();
    world_->create_fails = true;
    EXPECT_EQ(run_task(one->lifecycle->acquire(wish("demo"))).error().code, Code::Exhausted);
    EXPECT_TRUE(one->store->list({})->empty());
    EXPECT_EQ(one->store->list({.with_dead = true})->front().state, State::Failed);
    world_->create_fails = false;
    EXPECT_EQ(must(run_task(one->lifecycle->acquire(wish("demo")))).tier, Tier::Fresh);
}

TEST_F(Tiers, ADeadMakersSandboxIsFinishedByTheNextWhoAsks)
{
    auto one = process();
    SandboxRecord half;
    half.spec = wish("demo").spec;
    half.spec.id = "sbx_01jd7f3k2m0000000000000000";
    half.key = "demo";
    half.backend = "world";
    half.native = half.spec.id;
    half.spec_hash = must(run_task(one->lifecycle->acquire(wish("other")))).record.spec_hash;
    ASSERT_TRUE(one->store->insert(half, {}));
    const auto finished = must(run_task(one->lifecycle->acquire(wish("demo"))));
    EXPECT_EQ(finished.record.id(), half.spec.id);
    EXPECT_EQ(finished.tier, Tier::Fresh);
    EXPECT_EQ(finished.record.state, State::Running);
}

TEST_F(Tiers, ADeadMakersRestoreIsFinishedFromItsSnapshotAndAForkNotAtAll)
{
    auto one = process();
    must(run_task(one->lifecycle->acquire(wish("demo"))));
    const auto taken = run_task(one->lifecycle->snapshot("demo", {}));
    ASSERT_TRUE(taken) << taken.error().line();
    SandboxRecord half;
    half.spec = wish("back").spec;
    half.spec.id = "sbx_01jd7f3k2m0000000000000000";
    half.key = "back";
    half.backend = "world";
    half.native = half.spec.id;
    half.latest_snapshot = taken->record.id;
    ASSERT_TRUE(one->store->insert(half, {}));
    world_->instances[half.native] = {.spec = half.spec}; // made, and perhaps not filled
    const auto back = must(run_task(one->lifecycle->use("back")));
    EXPECT_EQ(back.tier, Tier::Restored);
    EXPECT_EQ(back.snapshot, taken->record.id);
    EXPECT_EQ(world_->instances.at(half.native).from, taken->record.id) << "never an empty one";

    half.spec.id = half.native = "sbx_01jd7f3k2m0000000000000001";
    half.key.clear();
    half.latest_snapshot.clear();
    half.spec.labels[std::string(kForkLabel)] = "sbx_source";
    ASSERT_TRUE(one->store->insert(half, {}));
    EXPECT_EQ(run_task(one->lifecycle->use(half.spec.id)).error().code, Code::NotFound);
    EXPECT_FALSE(world_->instances.contains(half.native));
}

TEST_F(Tiers, ThirtyTwoThreadsGetOneSandbox)
{
    std::vector<std::unique_ptr<Process>> all;
    for (int i = 0; i < 8; ++i) all.push_back(process());
    std::vector<std::thread> threads;
    std::vector<std::string> ids(32);
    for (std::size_t i = 0; i < ids.size(); ++i)
        threads.emplace_back([&, i] {
            if (auto got = run_task(all[i % 8]->lifecycle->acquire(wish("same")))) ids[i] = got->record.id();
        });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(world_->creates, 1u);
    for (const auto& id : ids) EXPECT_EQ(id, ids.front());
    EXPECT_EQ(told(*all[0], "sandbox_created"), 1u);
}

TEST_F(Tiers, RefsAreIdsPrefixesNamesAndKeys)
{
    auto one = process();
    const auto made = must(run_task(one->lifecycle->acquire(wish("a key", "box"))));
    const auto& id = made.record.id();
    for (const std::string& ref :
         {id, id.substr(0, 20), id.substr(4, 16), std::string("box"), std::string("a key")}) {
        const auto found = run_task(one->lifecycle->find(ref));
        ASSERT_TRUE(found) << ref;
        EXPECT_EQ(found->id(), id) << ref;
    }
    EXPECT_EQ(run_task(one->lifecycle->find("nothing")).error().code, Code::NotFound);
    EXPECT_EQ(run_task(one->lifecycle->find("")).error().code, Code::NotFound);
    must(run_task(one->lifecycle->acquire(wish("second"))));
    EXPECT_EQ(run_task(one->lifecycle->find(id.substr(0, 6))).error().code, Code::Conflict);
}

TEST_F(Tiers, WhatWasBeingAdoptedWhenItsMakerDiedIsAdopted)
{
    world_->others.insert("theirs");
    auto one = process();
    const auto adopted = must(run_task(one->lifecycle->acquire(wish("theirs"))));
    EXPECT_EQ(adopted.tier, Tier::Attached);
    EXPECT_EQ(world_->creates, 0);
    // As kill -9 leaves it: the record is there, the instance is not.
    {
        auto db = store::Connection::open(data_ + "/store.db");
        ASSERT_TRUE(db->execute("UPDATE sandbox SET state = 'creating'"));
    }
    world_->instances.clear();
    auto two = process();
    const auto again = must(run_task(two->lifecycle->acquire(wish("theirs"))));
    EXPECT_EQ(again.record.id(), adopted.record.id());
    EXPECT_EQ(world_->creates, 0) << "nothing empty was made in its place";
    EXPECT_EQ(world_->instances.at(again.record.native).from, "somebody else");
}

} // namespace
} // namespace berth

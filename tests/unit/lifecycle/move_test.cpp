// A move between two backends, each with a world of its own: what finds the sandbox afterwards, and what a
// move that fails leaves.

#include "place.hpp"

namespace berth {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

class Move : public LifecycleTest {
protected:
    std::unique_ptr<Process> with_another_place()
    {
        auto out = process();
        out->registry.add("there",
                          [world = there_](const BackendOptions&) -> Result<std::unique_ptr<Backend>> {
                              return std::make_unique<WorldBackend>(world);
                          });
        return out;
    }
    static MoveAnswer moved(Process& one, const std::string& to, std::optional<Template> root = {})
    {
        auto answer = run_task(one.lifecycle->move("demo", {.backend = to, .kind = {}, .root = root}));
        EXPECT_TRUE(answer) << answer.error().line();
        return answer ? *std::move(answer) : MoveAnswer{};
    }

    std::shared_ptr<World> there_ = std::make_shared<World>();
};

TEST_F(Move, TheCommandThatMadeItFindsItWhereItIs)
{
    auto one = with_another_place();
    const auto made = must(run_task(one->lifecycle->acquire(wish("demo"))));
    for (const bool on_another_template : {false, true}) {
        auto root = made.record.spec.root;
        if (on_another_template) root = {.kind = Template::Kind::Image, .path = "theirs:1", .tag = {}};
        moved(*one, "there", root);
        const auto again = must(run_task(one->lifecycle->acquire(wish("demo"))));
        EXPECT_EQ(again.record.id(), made.record.id());
        EXPECT_EQ(again.record.backend, "there");
        EXPECT_EQ(again.tier, Tier::Attached);
        EXPECT_THAT(again.notes, Contains(AllOf(HasSubstr("demo was moved to there on "),
                                                HasSubstr("berth move demo --to world brings it back"))));
        moved(*one, "world", made.record.spec.root);
        EXPECT_TRUE(must(run_task(one->lifecycle->acquire(wish("demo")))).notes.empty());
    }
    EXPECT_EQ(told(*one, "berth.sandbox_superseded"), 0u);
}

TEST_F(Move, ItsNameFindsItToo)
{
    auto one = with_another_place();
    const auto made = must(run_task(one->lifecycle->acquire(wish({}, "demo"))));
    moved(*one, "there");
    EXPECT_EQ(must(run_task(one->lifecycle->acquire(wish({}, "demo")))).record.id(), made.record.id());
}

TEST_F(Move, AnotherSpecificationSupersedesWhatWasMoved)
{
    auto one = with_another_place();
    const auto made = must(run_task(one->lifecycle->acquire(wish("demo"))));
    moved(*one, "there");
    auto other = wish("demo");
    other.spec.env["A"] = "b";
    const auto next = must(run_task(one->lifecycle->acquire(other)));
    EXPECT_EQ(next.tier, Tier::Fresh);
    EXPECT_NE(next.record.id(), made.record.id());
}

TEST_F(Move, WhatStandsStillForItGoesOnOnceItsBackendIsBack)
{
    auto one = with_another_place();
    const auto made = must(run_task(one->lifecycle->acquire(wish("demo"))));
    world_->outage_at_snapshot = true;
    const auto failed = run_task(one->lifecycle->move("demo", {.backend = "there"}));
    ASSERT_FALSE(failed);
    EXPECT_EQ(failed.error().code, Code::Unavailable);
    EXPECT_THAT(failed.error().line(), HasSubstr("its commands may stand still until"));
    EXPECT_EQ(world_->instances.at(made.record.native).state, State::Paused);
    world_->outage = false;
    ASSERT_TRUE(run_task(one->lifecycle->collect({})));
    EXPECT_EQ(world_->instances.at(made.record.native).state, State::Running);
}

} // namespace
} // namespace berth

// Sandboxes that are made before anybody asks for them, with real keepers: whoever gets one cannot tell it
// from one that was made for him, nobody else sees it before, and nothing of it stays.

#include "lifecycle/lot.hpp"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "berth/berth.hpp"

namespace berth {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class LotTest : public ::testing::Test {
protected:
    LotTest()
    {
        char path[] = "/tmp/berth-lot-XXXXXX";
        data_ = ::mkdtemp(&path[0]);
        berth_ = open();
    }
    ~LotTest() override
    {
        berth_.reset();
        if (auto last = open()) {
            const auto all = last->store().list({.with_dead = true});
            for (const auto& record : *all) (void)last->run(last->lifecycle().destroy(record.id()));
            (void)last->run(last->lifecycle().collect({.grace = 0s, .keep_last = 0}));
        }
        EXPECT_THAT(directories(), IsEmpty());
        std::error_code ignored;
        fs::remove_all(data_, ignored);
    }
    std::unique_ptr<Berth> open()
    {
        auto opened = Berth::open({.data = data_, .threads = 2});
        EXPECT_TRUE(opened) << opened.error().line();
        return opened ? *std::move(opened) : nullptr;
    }
    static AcquireRequest wish(const std::string& key)
    {
        AcquireRequest out;
        out.key = key;
        out.spec.policy = *policy::preset("sandbox");
        return out;
    }
    void refill(Lot& lot)
    {
        const auto filled = [](Lot& which) -> Task<Status> {
            co_await which.refill();
            co_return Status{};
        };
        EXPECT_TRUE(berth_->run(filled(lot)));
    }
    SandboxRecord acquire(AcquireRequest request)
    {
        auto answer = berth_->run(berth_->lifecycle().acquire(std::move(request)));
        EXPECT_TRUE(answer) << answer.error().line();
        if (answer) EXPECT_EQ(answer->tier, Tier::Fresh);
        return answer ? answer->record : SandboxRecord{};
    }
    std::string shell(const std::string& ref, const std::string& script)
    {
        ExecSpec exec;
        exec.argv = {"sh", "-c", script};
        exec.timeout = 20s;
        std::string output;
        RunStreams streams;
        streams.on_event = [&](const ExecEvent& event) { output += event.bytes; };
        const auto outcome = berth_->run(berth_->exec(ref, std::move(exec), std::move(streams)));
        EXPECT_TRUE(outcome) << outcome.error().line();
        if (outcome) EXPECT_TRUE(outcome->status.success()) << to_string(outcome->status) << ": " << output;
        return output;
    }
    std::vector<std::string> directories() const
    {
        std::vector<std::string> out;
        std::error_code missing;
        for (const auto& entry : fs::directory_iterator(data_ + "/sandbox", missing))
            out.push_back(entry.path().filename());
        return out;
    }

    std::string data_;
    std::unique_ptr<Berth> berth_;
};

TEST_F(LotTest, NobodySeesWhatIsParked)
{
    Lot lot(berth_->lifecycle(), "local", 2);
    lot.expect(wish("").spec);
    refill(lot);
    EXPECT_EQ(lot.counts().parked, 2u);
    EXPECT_THAT(directories(), SizeIs(2));
    EXPECT_THAT(*berth_->store().list({.with_dead = true}), IsEmpty());
    auto* const backend = *berth_->backend("local");
    EXPECT_THAT(*berth_->run(backend->scan()), IsEmpty());
    // Nor does somebody who collects take them away while their maker lives.
    const auto other = open();
    const auto report = other->run(other->lifecycle().collect({.grace = 0s, .orphans = true}));
    ASSERT_TRUE(report) << report.error().line();
    EXPECT_THAT(report->actions, IsEmpty());
    EXPECT_THAT(directories(), SizeIs(2));
}

TEST_F(LotTest, AClaimedOneIsLikeAnyOther)
{
    Lot lot(berth_->lifecycle(), "local", 1);
    lot.expect(wish("").spec);
    refill(lot);
    const auto parked = directories();
    ASSERT_THAT(parked, SizeIs(1));
    auto request = wish("warm");
    request.spec.name = "claimed-one";
    request.spec.env = {{"GREETING", "hello there"}};
    request.spec.labels = {{"team", "blue"}};
    request.spec.workdir = "/tmp";
    const auto warm = acquire(request);
    EXPECT_EQ(warm.id(), parked.front());
    EXPECT_EQ(lot.counts().claimed, 1u);

    auto cold_request = request;
    cold_request.key = "cold";
    cold_request.spec.name = "made-one";
    (void)acquire(cold_request);
    EXPECT_EQ(lot.counts().missed, 1u);

    const std::string look =
        "uname -n; cat /etc/hostname /etc/hosts; echo $GREETING; pwd; id; ulimit -a; env | grep -v "
        "BERTH_SANDBOX; "
        "grep -e Seccomp -e NoNewPrivs -e Cap /proc/self/status; cut -d' ' -f2,3 /proc/self/mounts; "
        "find / -xdev -maxdepth 2 -printf '%M %u %g %p\\n' 2>/dev/null | sort";
    auto of_warm = shell("warm", look);
    EXPECT_THAT(of_warm, HasSubstr("claimed-one\nclaimed-one\n127.0.0.1\tlocalhost claimed-one\n"));
    EXPECT_THAT(of_warm, HasSubstr("\nhello there\n/tmp\n"));
    for (std::size_t at = 0; (at = of_warm.find("claimed-one")) != std::string::npos;)
        of_warm.replace(at, 11, "made-one");
    EXPECT_EQ(of_warm, shell("cold", look));
    EXPECT_THAT(shell("warm", "echo $BERTH_SANDBOX"), HasSubstr(warm.id()));
    EXPECT_NE(shell("warm", "cat /etc/machine-id"), shell("cold", "cat /etc/machine-id"));

    // Another process knows it by its record alone.
    berth_->lifecycle().claim_from(nullptr);
    const auto other = open();
    const auto seen = other->run(other->lifecycle().refresh("warm"));
    ASSERT_TRUE(seen) << seen.error().line();
    EXPECT_EQ(seen->spec, warm.spec);
    EXPECT_EQ(seen->state, State::Running);
    auto* const backend = *other->backend("local");
    const auto found = other->run(backend->inspect(Lifecycle::handle(warm)));
    ASSERT_TRUE(found);
    EXPECT_EQ(found->labels.key, "warm");
    EXPECT_EQ(found->health, Health::Healthy);
}

TEST_F(LotTest, AClaimedOneLivesItsWholeLife)
{
    Lot lot(berth_->lifecycle(), "local", 1);
    lot.expect(wish("").spec);
    refill(lot);
    auto request = wish("life");
    request.spec.name = "life";
    (void)acquire(request);
    ASSERT_EQ(lot.counts().claimed, 1u);
    shell("life", "echo kept > ~/note");
    auto& lifecycle = berth_->lifecycle();
    const auto taken = berth_->run(lifecycle.snapshot("life", {}));
    ASSERT_TRUE(taken) << taken.error().line();
    EXPECT_EQ(shell("life", "uname -n; cat ~/note"), "life\nkept\n");
    const auto forks = berth_->run(lifecycle.fork("life", {}));
    ASSERT_TRUE(forks) << forks.error().line();
    EXPECT_EQ(shell(forks->forks.front().id(), "cat ~/note"), "kept\n");
    ASSERT_TRUE(berth_->run(lifecycle.stop("life", 100ms)));
    EXPECT_EQ(shell("life", "uname -n; cat ~/note"), "life\nkept\n");
    if ((*berth_->backend("local"))->capabilities().can(Operation::Pause)) {
        ASSERT_TRUE(berth_->run(lifecycle.pause("life")));
        ASSERT_TRUE(berth_->run(lifecycle.resume("life")));
        EXPECT_EQ(shell("life", "cat ~/note"), "kept\n");
    }
}

TEST_F(LotTest, LimitsAreThoseOfWhoeverClaims)
{
    Lot lot(berth_->lifecycle(), "local", 1);
    lot.expect(wish("").spec);
    refill(lot);
    auto request = wish("small");
    request.spec.policy.limits.memory = 64_MiB;
    auto answer = berth_->run(berth_->lifecycle().acquire(request));
    if (!answer && answer.error().code == Code::Unsupported)
        GTEST_SKIP() << "no control group holds memory here: run as root, or see berth doctor";
    ASSERT_TRUE(answer) << answer.error().line();
    ASSERT_EQ(lot.counts().claimed, 1u);
    ExecSpec exec;
    exec.argv = {"sh", "-c", "head -c 300000000 /dev/zero | tail > /dev/null"};
    exec.timeout = 20s;
    const auto outcome = berth_->run(berth_->exec("small", std::move(exec)));
    ASSERT_TRUE(outcome) << outcome.error().line();
    EXPECT_FALSE(outcome->status.success());
    EXPECT_THAT(outcome->struck, SizeIs(1));
    EXPECT_EQ(shell("small", "echo on"), "on\n");
}

TEST_F(LotTest, WhatDoesNotFitIsMadeAsAlways)
{
    Lot lot(berth_->lifecycle(), "local", 1);
    lot.expect(wish("").spec);
    refill(lot);
    auto request = wish("other");
    request.spec.policy.limits.open_files = 77;
    const auto made = acquire(request);
    EXPECT_EQ(lot.counts().claimed, 0u);
    EXPECT_EQ(lot.counts().missed, 1u);
    EXPECT_EQ(shell("other", "ulimit -n"), "77\n");
    // The lot's word is not trusted: asked for the id of a parked one with another shape, the backend
    // makes what was asked for.
    auto* const backend = *berth_->backend("local");
    const auto all = directories();
    const auto parked = *std::ranges::find_if(all, [&](const auto& id) { return id != made.id(); });
    SandboxSpec spec = request.spec;
    spec.id = parked;
    const auto created = berth_->run(backend->create(spec));
    ASSERT_TRUE(created) << created.error().line();
    EXPECT_TRUE(berth_->run(backend->destroy(*created)));
    EXPECT_THAT(directories(), SizeIs(1));
    berth_->lifecycle().claim_from(nullptr); // and the lot must not hand that id out
}

TEST_F(LotTest, PlacesGoToWhatIsAskedFor)
{
    Lot lot(berth_->lifecycle(), "local", 2);
    lot.expect(wish("").spec);
    refill(lot);
    auto other = wish("");
    other.spec.policy.limits.open_files = 77;
    for (int i = 0; i < 3; ++i) {
        (void)acquire(other);
        refill(lot);
    }
    // Three to one: both places are its own.
    EXPECT_EQ(lot.counts().missed, 1u);
    EXPECT_EQ(lot.counts().claimed, 2u);
    (void)acquire(other);
    (void)acquire(other);
    EXPECT_EQ(lot.counts().claimed, 4u);
    EXPECT_EQ(lot.counts().parked, 0u);
}

TEST_F(LotTest, ATemplateIsParkedFromItsSnapshot)
{
    (void)acquire(wish("source"));
    shell("source", "echo built > ~/built");
    auto& lifecycle = berth_->lifecycle();
    const auto taken = berth_->run(lifecycle.snapshot("source", {}));
    ASSERT_TRUE(taken) << taken.error().line();
    ASSERT_TRUE(berth_->run(lifecycle.destroy("source")));
    Lot lot(lifecycle, "local", 1);
    const auto restore = [&](const std::string& name) {
        const auto answer = berth_->run(
            lifecycle.restore(taken->record.id, {.as_new = true, .name = name, .key = "key-" + name}));
        EXPECT_TRUE(answer) << answer.error().line();
    };
    restore("first");
    refill(lot);
    // Its layers are in use, also when its snapshot is the only other one that names them.
    ASSERT_TRUE(berth_->run(lifecycle.collect_unused("local")));
    restore("second");
    EXPECT_EQ(lot.counts().claimed, 1u);
    EXPECT_EQ(shell("second", "uname -n; cat ~/built"), "second\nbuilt\n");
    EXPECT_NE(shell("first", "cat /etc/machine-id"), shell("second", "cat /etc/machine-id"));
    // With the template goes what was made of it ahead.
    refill(lot);
    EXPECT_EQ(lot.counts().parked, 1u);
    ASSERT_TRUE(berth_->run(lifecycle.remove_snapshot(taken->record.id)));
    refill(lot);
    EXPECT_EQ(lot.counts().parked, 0u);
    EXPECT_THAT(directories(), SizeIs(2));
}

TEST_F(LotTest, AnUnusedIdIsGivenBack)
{
    Lot lot(berth_->lifecycle(), "local", 1);
    lot.expect(wish("").spec);
    refill(lot);
    const auto id = lot.take("local", wish("").spec, {});
    ASSERT_TRUE(id);
    lot.give_back(*id);
    refill(lot);
    EXPECT_THAT(directories(), SizeIs(1));
    EXPECT_EQ(lot.counts().parked, 1u);
    EXPECT_NE(directories().front(), *id);
}

TEST_F(LotTest, TheEndOfItsMakerIsTheEndOfWhatIsParked)
{
    {
        Lot lot(berth_->lifecycle(), "local", 1);
        lot.expect(wish("").spec);
        refill(lot);
        ASSERT_THAT(directories(), SizeIs(1));
    }
    berth_.reset(); // without a word
    berth_ = open();
    Lot next(berth_->lifecycle(), "local", 1);
    ASSERT_TRUE(berth_->run(next.begin()));
    EXPECT_THAT(directories(), IsEmpty());
}

} // namespace
} // namespace berth

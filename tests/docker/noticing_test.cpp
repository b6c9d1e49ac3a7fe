// What others do to containers behind our back is noticed while somebody listens.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "berth/noticing.hpp"
#include "docker/docker_fixture.hpp"

namespace berth {
namespace {

class DockerNotices : public Docker {
protected:
    /// The record as it is once it says so, or at the end of our patience; nobody of this test looks at the
    /// instance itself.
    State becomes(const std::string& key, State wanted)
    {
        const auto end = system_clock().steady() + 60s;
        for (;;) {
            const auto record = berth_->run(berth_->lifecycle().find(key));
            if (!record) return State::Destroyed;
            if (record->state == wanted || system_clock().steady() > end) return record->state;
            std::this_thread::sleep_for(10ms);
        }
    }
};

TEST_F(DockerNotices, ThatAContainerIsStoppedPausedAndRemoved)
{
    made();
    const auto container = ours();
    const Noticing noticing(data_);
    command("docker pause " + container);
    EXPECT_EQ(becomes("demo", State::Paused), State::Paused);
    command("docker unpause " + container);
    EXPECT_EQ(becomes("demo", State::Running), State::Running);
    command("docker rename " + container + " somebody-likes-it");
    command("docker kill " + container);
    EXPECT_EQ(becomes("demo", State::Stopped), State::Stopped);
    command("docker start " + container);
    EXPECT_EQ(becomes("demo", State::Running), State::Running);
    command("docker rm -f " + container);
    EXPECT_EQ(becomes("demo", State::Lost), State::Lost);
    const auto told = berth_->store().ledger({.type = "berth.sandbox_state_seen"});
    ASSERT_TRUE(told);
    std::vector<std::string> reasons;
    for (const auto& event : *told) reasons.emplace_back(event.data.at("reason").as_string());
    // One that is removed by force is seen to have stopped before, or not.
    ASSERT_GE(reasons.size(), 5u);
    EXPECT_EQ(reasons.back(), "lost");
    reasons.resize(4);
    EXPECT_THAT(reasons, testing::ElementsAre("paused", "running", "stopped", "running"));
}

TEST_F(DockerNotices, ThatABorrowedContainerDiesComesBackAndIsRemoved)
{
    if (test::DockerEngine::is_far()) GTEST_SKIP() << "containers elsewhere are not borrowed";
    made();
    const auto image = command("docker inspect -f '{{.Image}}' " + ours());
    const auto theirs = command("docker run -d --network none --name theirs-" + std::to_string(::getpid()) +
                                " " + image + " sleep 1000");
    const auto attached = berth_->run(berth_->lifecycle().attach("docker", theirs, "borrowed"));
    ASSERT_TRUE(attached) << attached.error().line();
    const auto id = attached->record.id();
    const auto reasons = [&](std::size_t count) {
        std::vector<std::string> out;
        for (const auto end = system_clock().steady() + 60s;
             out.size() < count && system_clock().steady() < end;) {
            out.clear();
            const auto told = berth_->store().ledger({.sandbox = id, .type = "berth.sandbox_state_seen"});
            for (const auto& event : *told) out.emplace_back(event.data.at("reason").as_string());
            std::this_thread::sleep_for(10ms);
        }
        return out;
    };
    const Noticing noticing(data_);
    command("docker kill " + theirs);
    EXPECT_THAT(reasons(1), testing::ElementsAre("stopped"));
    EXPECT_EQ(berth_->run(berth_->lifecycle().find(id))->state, State::Attached) << "it is still borrowed";
    command("docker start " + theirs);
    EXPECT_THAT(reasons(2), testing::ElementsAre("stopped", "running"));
    EXPECT_EQ(shell(id, "echo back", "root"), "back\n");
    EXPECT_THAT(reasons(2), testing::ElementsAre("stopped", "running")) << "told once";
    command("docker rm -f " + theirs);
    EXPECT_EQ(becomes(id, State::Lost), State::Lost);
    EXPECT_EQ(reasons(3).back(), "lost");
    ASSERT_TRUE(berth_->run(berth_->lifecycle().detach(id))) << "what is left of it is let go";
    EXPECT_EQ(std::filesystem::exists(data_ + "/docker/" + id), false);
}

TEST_F(DockerNotices, WhatHappenedBeforeSomebodyListened)
{
    made();
    command("docker kill " + ours());
    const Noticing noticing(data_);
    EXPECT_EQ(becomes("demo", State::Stopped), State::Stopped);
}

} // namespace
} // namespace berth

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
        const auto end = system_clock().steady() + 20s;
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

TEST_F(DockerNotices, WhatHappenedBeforeSomebodyListened)
{
    made();
    command("docker kill " + ours());
    const Noticing noticing(data_);
    EXPECT_EQ(becomes("demo", State::Stopped), State::Stopped);
}

} // namespace
} // namespace berth

#include "backend/exec_server/proofs.hpp"

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

namespace berth::exec_server {
namespace {

using namespace std::chrono_literals;

class OwnClock final : public Clock {
public:
    WallTime now() const override { return wall + passed; }
    SteadyTime steady() const override { return monotonic + passed; }
    std::chrono::nanoseconds passed{0};

private:
    WallTime wall = system_clock().now();
    SteadyTime monotonic = system_clock().steady();
};

class ProofsTest : public ::testing::Test {
protected:
    ~ProofsTest() override { std::filesystem::remove_all(top_); }

    /// One process of ours.
    [[nodiscard]] Proofs process() const { return Proofs(state_, clock_); }
    void find_out(Proofs& proofs, const Status& outcome) const
    {
        EXPECT_TRUE(proofs.begin("key"));
        proofs.end("key", outcome);
        if (outcome) proofs.note("key");
    }

    [[nodiscard]] static std::string make_directory()
    {
        std::string name = "/var/tmp/berth-proofs-XXXXXX";
        return ::mkdtemp(name.data());
    }

    std::string top_ = make_directory();
    OwnClock clock_;
    keeping::RemoteState state_{top_, "exec-server-client", [](std::string_view) { return Status{}; }};
};

TEST_F(ProofsTest, WhatHeldIsTriedAgainAfterAnHour)
{
    ASSERT_TRUE(state_.make_instance("one")); // with it the directory for notes
    auto daemon = process();
    EXPECT_FALSE(daemon.known("key"));
    find_out(daemon, {});
    clock_.passed = 59min;
    ASSERT_TRUE(daemon.known("key"));
    EXPECT_TRUE(*daemon.known("key"));
    // Another process reads the note, and no later than this one will it look again.
    auto other = process();
    other.recall("key");
    EXPECT_TRUE(other.known("key"));
    clock_.passed = 61min;
    for (auto* const one : {&daemon, &other}) {
        one->recall("key");
        EXPECT_FALSE(one->known("key"));
    }
}

TEST_F(ProofsTest, WhatDidNotHoldIsTriedAgainSoon)
{
    auto daemon = process();
    find_out(daemon, fail(Code::Unsupported, "it does not hold"));
    ASSERT_TRUE(daemon.known("key"));
    EXPECT_EQ(daemon.known("key")->error().message, "it does not hold");
    clock_.passed = 2min;
    EXPECT_FALSE(daemon.known("key"));
    // What could not be tried is no outcome.
    find_out(daemon, fail(Code::Unavailable, "out of reach"));
    EXPECT_FALSE(daemon.known("key"));
}

} // namespace
} // namespace berth::exec_server

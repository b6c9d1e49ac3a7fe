// Containers that are not ours: those of strangers, borrowed ones, and those exo made, which become ours.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/exo_hash.hpp"
#include "docker/docker_fixture.hpp"

namespace berth {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(Docker, LeavesStrangersAlone)
{
    made();
    const auto image = command("docker images -q berth-template | head -n 1");
    command("for i in $(seq 500); do docker create --network none --name stranger-$i --label "
            "other=berth.sandbox.id " +
            image + " /bin/true; done");
    const auto like = command("docker create --network none --name berth-like --label exo.sandbox.key=a " +
                              image + " /bin/true");
    ASSERT_TRUE(berth_->run(berth_->lifecycle().destroy("demo")));
    ASSERT_TRUE(berth_->run(berth_->lifecycle().collect({.grace = 0s, .keep_last = 0})));
    EXPECT_THAT(ours(), IsEmpty());
    EXPECT_EQ(command("docker ps -aq --filter label=other=berth.sandbox.id --filter status=created | wc -l"),
              "500");
    command("docker rm -f " + like);
    command("docker ps -aq --filter label=other=berth.sandbox.id | xargs docker rm");
}

TEST_F(Docker, BorrowsAContainerThatSomebodyElseMade)
{
    made();
    const auto image = command("docker inspect -f '{{.Image}}' " + ours());
    const auto theirs = command("docker run -d --network none --name theirs " + image + " sleep 1000");
    const auto attached = berth_->run(berth_->lifecycle().attach("docker", "theirs", "borrowed"));
    ASSERT_TRUE(attached) << attached.error().line();
    EXPECT_EQ(shell("borrowed", "id -un; echo in > /tmp/note"), "user\n");
    EXPECT_EQ(command("docker exec theirs cat /tmp/note"), "in");
    const auto again = berth_->run(berth_->lifecycle().attach("docker", theirs.substr(0, 12), ""));
    ASSERT_TRUE(again) << again.error().line();
    EXPECT_EQ(again->record.id(), attached->record.id());
    EXPECT_EQ(berth_->run(berth_->lifecycle().stop("borrowed", 0s)).error().code, Code::Denied);
    command("docker restart -t 0 theirs");
    EXPECT_EQ(shell("borrowed", "cat /tmp/note"), "in\n") << "a keeper is put in anew";
    ASSERT_TRUE(berth_->run(berth_->lifecycle().detach("borrowed")));
    EXPECT_EQ(command("docker inspect -f '{{.State.Status}}' theirs"), "running");
    EXPECT_EQ(command("docker exec theirs sh -c 'ls -a / | grep -c berth- || true'"), "0");
    const auto back = berth_->run(berth_->lifecycle().attach("docker", "theirs", ""));
    ASSERT_TRUE(back) << back.error().line();
    EXPECT_EQ(back->record.id(), attached->record.id()) << "the same container is the same sandbox";
    EXPECT_EQ(shell(back->record.id(), "cat /tmp/note"), "in\n");
    // Let go while it stands still, it is as it was all the same.
    command("docker stop -t 0 theirs");
    ASSERT_TRUE(berth_->run(berth_->lifecycle().detach(back->record.id())));
    command("docker start theirs");
    EXPECT_EQ(command("docker exec theirs sh -c 'ls -a / | grep -c berth- || true'"), "0");
    command("docker rm -f theirs");
}

TEST_F(Docker, IsFoundByTheRulesOfExo)
{
    auto request = wish("conversation:c:s");
    request.spec.workdir = "/tmp";
    ASSERT_TRUE(acquire(request));
    const auto container = ours();
    const auto hash =
        command("docker inspect -f '{{index .Config.Labels \"exo.sandbox.spec-hash\"}}' " + container);
    EXPECT_EQ(hash.size(), 16u);
    EXPECT_EQ(command("docker ps -q --no-trunc --filter label=exo.sandbox.key=conversation:c:s "
                      "--filter label=exo.sandbox.spec-hash=" +
                      hash),
              container);
}

TEST_F(Docker, NoMountShowsTheStateDirectory)
{
    for (const auto& source :
         {std::filesystem::path(data_).parent_path().string(), data_, data_ + "/docker"}) {
        auto request = wish("shown");
        request.spec.mounts = {
            {.source = source, .target = "/mnt/place", .mode = Mount::Mode::ReadOnly, .workspace = false}};
        const auto refused = acquire(request);
        ASSERT_FALSE(refused) << source;
        EXPECT_EQ(refused.error().code, Code::Denied) << refused.error().line();
    }
    EXPECT_THAT(ours(), IsEmpty());
}

/// As exo's own backend makes them, by the client of docker.
class Exo : public Docker {
protected:
    void SetUp() override
    {
        Docker::SetUp();
        if (IsSkipped()) return;
        const auto seed = made("seed"); // whose image is the one to run
        command("docker tag $(docker inspect -f '{{.Image}}' berth-" + seed + ") exo-test:1");
        request_ = wish(kKey);
        request_.spec.root = {.kind = Template::Kind::Image, .path = "exo-test:1", .tag = {}};
        request_.spec.workdir = "/tmp";
        hash_ = exo::spec_hash(
            {.image = "exo-test:1", .mounts = {}, .file_systems = {}, .network = false, .workdir = "/tmp"});
    }
    void TearDown() override
    {
        if (!IsSkipped())
            command("docker ps -aq --filter label=exo.sandbox.owner-pid=77 | xargs -r docker rm -f");
        Docker::TearDown();
    }
    std::string run(const std::string& hash, const std::string& more = "--network none")
    {
        return command(fmt::format("docker run -d {} --workdir /tmp --label 'exo.sandbox.key={}' --label "
                                   "exo.sandbox.spec-hash={} --label exo.sandbox.owner-pid=77 exo-test:1 "
                                   "sleep infinity",
                                   more, kKey, hash));
    }
    static std::string status(const std::string& container)
    {
        return command("docker inspect -f '{{.State.Status}}' " + container);
    }

    static constexpr const char* kKey = "conversation:a \"b\", c=d:ünï";
    AcquireRequest request_;
    std::string hash_;
};

TEST_F(Exo, IsAdoptedWithItsWork)
{
    const auto theirs = run(hash_);
    command("docker exec " + theirs + " sh -c 'echo work > /tmp/note; chmod 666 /tmp/note'");
    const auto adopted = acquire(request_);
    ASSERT_TRUE(adopted) << adopted.error().line();
    EXPECT_EQ(adopted->tier, Tier::Attached);
    EXPECT_EQ(shell(kKey, "cat /tmp/note; pwd; echo more >> /tmp/note"), "work\n/tmp\n");
    EXPECT_THAT(shell(kKey, "grep NoNewPrivs /proc/self/status"), HasSubstr("1"));
    EXPECT_EQ(command("docker exec " + theirs + " tail -n 1 /tmp/note"), "more");
    EXPECT_EQ(command("docker inspect -f '{{.HostConfig.PidsLimit}}' " + theirs),
              std::to_string(*request_.spec.policy.limits.pids))
        << "what was asked for is held, also by what stood before";
    const auto again = acquire(request_);
    ASSERT_TRUE(again) << again.error().line();
    EXPECT_EQ(again->record.id(), adopted->record.id());

    ASSERT_TRUE(berth_->run(berth_->lifecycle().stop(kKey, 1s)));
    EXPECT_EQ(status(theirs), "exited");
    ASSERT_TRUE(berth_->run(berth_->lifecycle().collect({.grace = 0s})));
    const auto started = acquire(request_);
    ASSERT_TRUE(started) << started.error().line();
    EXPECT_EQ(started->tier, Tier::Started);
    EXPECT_EQ(shell(kKey, "cat /tmp/note"), "work\nmore\n");
    ASSERT_TRUE(berth_->run(berth_->lifecycle().destroy(kKey)));
    EXPECT_THAT(command("docker ps -aq --filter label=exo.sandbox.owner-pid=77"), IsEmpty());
}

TEST_F(Exo, WithAMountThroughALinkIsAdoptedAndFindsOurs)
{
    const std::string work = data_ + "-work";
    std::filesystem::create_directories(work + "/real");
    std::filesystem::create_directory_symlink(work + "/real", work + "/link");
    std::filesystem::create_directories(work + "/real/d");
    request_.spec.mounts = {
        {.source = work + "/link/d", .target = "/d", .mode = Mount::Mode::ReadWrite, .workspace = false}};
    // It hashes the path that its own prepared request has.
    hash_ = exo::spec_hash({.image = "exo-test:1",
                            .mounts = {{.host = work + "/real/d", .guest = "/d", .writable = true}},
                            .file_systems = {},
                            .network = false,
                            .workdir = "/tmp"});
    const auto theirs = run(hash_, "--network none -v " + work + "/real/d:/d");
    command("docker exec " + theirs + " sh -c 'echo work > /d/note'");
    const auto adopted = acquire(request_);
    ASSERT_TRUE(adopted) << adopted.error().line();
    EXPECT_EQ(adopted->tier, Tier::Attached);
    EXPECT_EQ(shell(kKey, "cat /d/note"), "work\n");
    ASSERT_TRUE(berth_->run(berth_->lifecycle().destroy(kKey)));

    ASSERT_TRUE(acquire(request_));
    EXPECT_EQ(
        command("docker ps -q --no-trunc --filter label=berth.sandbox.id --filter "
                "label=exo.sandbox.spec-hash=" +
                hash_),
        command("docker ps -q --no-trunc --filter label=berth.sandbox.key=" + std::string("'") + kKey + "'"));
    std::filesystem::remove_all(work);
}

TEST_F(Exo, WhoseMountIsNotWhatItsLabelsSayIsNotAdopted)
{
    const std::string work = data_ + "-work";
    std::filesystem::create_directories(work + "/d");
    std::filesystem::create_directories(work + "/other");
    request_.spec.mounts = {
        {.source = work + "/d", .target = "/d", .mode = Mount::Mode::ReadWrite, .workspace = false}};
    hash_ = exo::spec_hash({.image = "exo-test:1",
                            .mounts = {{.host = work + "/d", .guest = "/d", .writable = true}},
                            .file_systems = {},
                            .network = false,
                            .workdir = "/tmp"});
    const auto theirs = run(hash_, "--network none -v " + work + "/other:/d");
    const auto refused = acquire(request_);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Denied) << refused.error().line();
    EXPECT_THAT(refused.error().line(), HasSubstr("shows something else at /d"));
    EXPECT_EQ(status(theirs), "running");
    std::filesystem::remove_all(work);
}

TEST_F(Exo, WhatFailsOnTheWayLeavesNothingInIt)
{
    const auto theirs = run(hash_, "--network none --memory 64m --memory-swap 64m");
    request_.spec.policy.limits.memory = Bytes{1024}; // the engine refuses so little
    const auto refused = acquire(request_);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().line(), HasSubstr("adopting container"));
    EXPECT_EQ(command("docker exec " + theirs + " sh -c 'ls -a / | grep -c berth- || true'"), "0");
    EXPECT_EQ(command("docker top " + theirs + " -o pid,args | grep -c keeper || true"), "0");
    EXPECT_EQ(status(theirs), "running");
}

TEST_F(Exo, AnAdoptedOneThatIsPausedIsThawed)
{
    const auto theirs = run(hash_);
    ASSERT_TRUE(acquire(request_));
    command("docker pause " + theirs);
    const auto seen = berth_->run(berth_->lifecycle().refresh(kKey));
    ASSERT_TRUE(seen) << seen.error().line();
    EXPECT_EQ(seen->state, State::Paused);
    const auto resumed = berth_->run(berth_->lifecycle().resume(kKey));
    ASSERT_TRUE(resumed) << resumed.error().line();
    EXPECT_EQ(status(theirs), "running");
    command("docker pause " + theirs);
    EXPECT_EQ(shell(kKey, "echo here"), "here\n");
    EXPECT_EQ(status(theirs), "running");
}

TEST_F(Exo, AStoppedOneIsStarted)
{
    const auto theirs = run(hash_);
    command("docker exec " + theirs + " sh -c 'echo work > /tmp/note'; docker stop -t 0 " + theirs);
    const auto adopted = acquire(request_);
    ASSERT_TRUE(adopted) << adopted.error().line();
    EXPECT_EQ(shell(kKey, "cat /tmp/note"), "work\n");
}

TEST_F(Exo, ThatAskedForSomethingElseIsLeftAlone)
{
    const auto theirs = run("0123456789abcdef");
    const auto fresh = acquire(request_);
    ASSERT_TRUE(fresh) << fresh.error().line();
    EXPECT_EQ(fresh->tier, Tier::Fresh);
    EXPECT_EQ(status(theirs), "running");
    ASSERT_TRUE(berth_->run(berth_->lifecycle().destroy(kKey)));
    ASSERT_TRUE(berth_->run(berth_->lifecycle().collect({.grace = 0s})));
    EXPECT_EQ(status(theirs), "running");
}

TEST_F(Exo, ThatDoesNotHoldWhatItsLabelsSayIsRefused)
{
    const auto theirs = run(hash_, "--network host");
    const auto refused = acquire(request_);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Denied);
    EXPECT_THAT(refused.error().line(), HasSubstr("network"));
    ASSERT_TRUE(berth_->run(berth_->lifecycle().collect({.grace = 0s})));
    EXPECT_EQ(status(theirs), "running");
}

TEST_F(Exo, OfSeveralTheNewestThatRunsIsTaken)
{
    const auto old = run(hash_);
    command("sleep 1.1");
    const auto newer = run(hash_);
    command("sleep 1.1");
    const auto stopped = run(hash_);
    command("docker stop -t 0 " + stopped);
    command("docker exec " + newer + " touch /tmp/newer");
    ASSERT_TRUE(acquire(request_));
    EXPECT_EQ(shell(kKey, "ls /tmp"), "newer\n");
    ASSERT_TRUE(berth_->run(berth_->lifecycle().destroy(kKey)));
    EXPECT_EQ(status(old), "running") << "what was not adopted is somebody else's";
}

} // namespace
} // namespace berth

// A sandbox in another place: what its image asks for, what is told of the way, and an engine that is not
// there.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "docker/relayed_fixture.hpp"

namespace berth {
namespace {

using testing::Contains;
using testing::HasSubstr;

class DockerMoves : public Docker {
protected:
    /// The small root without an account `user`, whom an image that has it prefers.
    std::string plain_root() const
    {
        const std::string tar = data_ + "/plain.tar";
        command(fmt::format(
            "mkdir -p {0}/more/etc && cp {1} {2} && "
            "tar -xOf {1} ./etc/passwd | grep -v ^user > {0}/more/etc/passwd && "
            "tar --delete -f {2} ./etc/passwd && tar -C {0}/more --owner=0 --group=0 -rf {2} ./etc/passwd",
            data_, engine().root_tar(), tar));
        return tar;
    }
    void import_asking() const
    {
        command("docker import -c 'ENV FOO=\"a b\"' -c 'ENV PATH=/opt/bin:/usr/bin' -c 'WORKDIR /srv/w' "
                "-c 'USER nobody' " +
                plain_root() + " theirs:1");
    }
    MoveAnswer moved(const std::string& ref, const std::string& to)
    {
        const auto answer = berth_->run(berth_->lifecycle().move(ref, {.backend = to}));
        EXPECT_TRUE(answer) << answer.error().line();
        return answer.value_or(MoveAnswer{});
    }
    std::string look(const std::string& ref) { return shell(ref, "pwd; echo $PATH $FOO; id -un"); }
    void TearDown() override
    {
        Docker::TearDown();
        if (!IsSkipped()) command("docker images -q theirs:1 | xargs -r docker rmi -f");
    }

    static constexpr const char* kAsked = "/srv/w\n/opt/bin:/usr/bin a b\nnobody\n";
    static constexpr const char* kTold =
        "what its image asks for: ENV FOO, PATH; WORKDIR /srv/w; USER nobody";
};

TEST_F(DockerMoves, WhatItsImageAsksForComesAlongThereAndBack)
{
    import_asking();
    auto request = wish("app");
    request.spec.root = *parse_template("image:theirs:1");
    ASSERT_TRUE(acquire(request));
    EXPECT_EQ(look("app"), kAsked);
    for (const std::string to : {"local", "docker", "local"}) {
        SCOPED_TRACE(to);
        EXPECT_THAT(moved("app", to).carried, Contains(kTold));
        EXPECT_EQ(look("app"), kAsked);
        EXPECT_THAT(json::dump(berth_->store().ledger({.type = "berth.sandbox_moved"})->back().data),
                    HasSubstr(kTold));
    }
    const auto forked = berth_->run(berth_->lifecycle().fork("app", {}));
    ASSERT_TRUE(forked) << forked.error().line();
    EXPECT_EQ(look(forked->forks.front().id()), kAsked) << "layers over what was moved";
}

TEST_F(DockerMoves, WhatAnArchivesImageAsksForComesAlongUnderWhatTheSandboxAsksFor)
{
    import_asking();
    command("docker save theirs:1 -o " + data_ + "/image.tar");
    auto request = wish("app");
    request.backend = "local";
    request.spec.root = *parse_template("docker-archive:" + data_ + "/image.tar");
    request.spec.env["FOO"] = "mine";
    ASSERT_TRUE(acquire(request));
    const std::string asked = "/srv/w\n/opt/bin:/usr/bin mine\nnobody\n";
    EXPECT_EQ(look("app"), asked);
    EXPECT_THAT(moved("app", "docker").carried, Contains(kTold));
    EXPECT_EQ(look("app"), asked);
    const auto taken = berth_->run(berth_->lifecycle().snapshot("app", {.kind = "berth_rootfs_tar"}));
    ASSERT_TRUE(taken) << taken.error().line();
    const auto restored =
        berth_->run(berth_->lifecycle().restore(taken->record.id, {.as_new = true, .key = "again"}));
    ASSERT_TRUE(restored) << restored.error().line();
    EXPECT_EQ(look("again"), asked);
}

TEST_F(DockerMoves, WhatIsLeftOnAnotherTemplateIsNamed)
{
    import_asking();
    auto request = wish("app");
    request.spec.root = *parse_template("image:theirs:1");
    ASSERT_TRUE(acquire(request));
    const auto answer = berth_->run(berth_->lifecycle().move(
        "app", {.backend = "local", .kind = "berth_workspace_tar", .root = Template{}}));
    ASSERT_TRUE(answer) << answer.error().line();
    EXPECT_THAT(answer->left, Contains(kTold));
    EXPECT_THAT(answer->left, Contains(HasSubstr("extended attributes")));
}

TEST_F(DockerMoves, TheUserOfATemplateWithoutAnImageStaysHimself)
{
    auto request = wish("app");
    request.backend = "local";
    request.spec.root.path = plain_root();
    ASSERT_TRUE(acquire(request));
    EXPECT_EQ(shell("app", "id -u; echo ~"), "1000\n/home/user\n");
    for (const std::string to : {"docker", "local"}) {
        moved("app", to);
        EXPECT_EQ(shell("app", "id -u; echo ~"), "1000\n/home/user\n") << to;
    }
}

TEST_F(DockerMoves, WhatNoTarHoldsIsToldHereAndInTheLedger)
{
    auto request = wish("app");
    request.backend = "local";
    ASSERT_TRUE(acquire(request));
    shell("app", "cd; python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('s')\"");
    const auto answer = moved("app", "docker");
    const std::string note = "sockets and devices cannot be part of it";
    EXPECT_THAT(answer.notes, Contains(HasSubstr(note)));
    EXPECT_THAT(answer.carried, Contains(HasSubstr("extended attributes")));
    EXPECT_THAT(json::dump(berth_->store().ledger({.type = "berth.sandbox_moved"})->back().data),
                HasSubstr(note));
}

TEST_F(DockerMoves, ItsKeyFindsItWhereItIsNow)
{
    auto request = wish("app");
    request.backend = "local";
    const auto made = acquire(request);
    ASSERT_TRUE(made) << made.error().line();
    shell("app", "echo kept > ~/note");
    moved("app", "docker");
    const auto again = acquire(request);
    ASSERT_TRUE(again) << again.error().line();
    EXPECT_EQ(again->record.id(), made->record.id());
    EXPECT_EQ(again->tier, Tier::Attached);
    EXPECT_EQ(shell("app", "cat ~/note"), "kept\n");
}

class DockerMovesWithout : public Relayed<Docker> {
protected:
    State state_of(const std::string& native)
    {
        const auto found =
            berth_->run((*berth_->backend("docker"))->inspect({.sandbox = {}, .native = native}));
        EXPECT_TRUE(found) << found.error().line();
        return found ? found->state : State::Lost;
    }
};

TEST_F(DockerMovesWithout, AnEngineWhatIsPausedIsResumed)
{
    const auto native = made();
    ASSERT_TRUE(berth_->run(berth_->lifecycle().pause("demo")));
    EXPECT_EQ(state_of(native), State::Paused);
    relay_->allow(0);
    const auto resumed = berth_->run(berth_->lifecycle().resume("demo"));
    EXPECT_TRUE(resumed) << resumed.error().line();
    EXPECT_EQ(state_of(native), State::Running);
}

TEST_F(DockerMovesWithout, AnEngineAMoveThatFailsLeavesNothingFrozen)
{
    const auto native = made();
    relay_->allow(0);
    const auto refused = berth_->run(berth_->lifecycle().move("demo", {.backend = "local"}));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Unavailable) << refused.error().line();
    EXPECT_EQ(state_of(native), State::Running);
}

} // namespace
} // namespace berth

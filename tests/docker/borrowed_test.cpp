// What is told of containers: of borrowed ones nothing but what their engine says, of users and of what a
// snapshot leaves out what is true.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.hpp"
#include "core/tells_borrowed.hpp"
#include "docker/docker_fixture.hpp"
#include "lifecycle/borrowed.hpp"
#include "lifecycle/proving.hpp"
#include "support/places.hpp"

namespace berth {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class DockerTells : public Docker {
protected:
    void TearDown() override
    {
        if (!theirs_.empty()) command("docker rm -f " + theirs_);
        Docker::TearDown();
    }
    /// A container of somebody else, with an image of ours.
    void lend(const std::string& how)
    {
        made();
        image_ = command("docker inspect -f '{{.Image}}' " + ours());
        theirs_ = command("docker run -d " + how + " --name theirs " + image_ + " sleep 100000");
        const auto attached = berth_->run(berth_->lifecycle().attach("docker", "theirs", "lent"));
        ASSERT_TRUE(attached) << attached.error().line();
        record_ = attached->record;
    }
    std::string cli(const std::string& words) const
    {
        return command("BERTH_DATA=" + data_ + " " BERTH_PROGRAM " " + words);
    }
    /// A root like the usual one, but without the account `user`.
    AcquireRequest without_user()
    {
        const std::string root = data_ + "/root";
        command("mkdir " + root + " && tar -C " + root + " -xf " + engine().root_tar() +
                " && sed -i /^user:/d " + root + "/etc/passwd");
        auto request = wish("nobody");
        request.spec.root = {.kind = Template::Kind::Directory, .path = root, .tag = {}};
        return request;
    }
    Result<RunOutcome> run(const std::string& ref, ExecSpec exec, std::string& output)
    {
        exec.timeout = 120s;
        RunStreams streams;
        streams.on_event = [&](const ExecEvent& event) { output += event.bytes; };
        return berth_->run(berth_->exec(ref, std::move(exec), std::move(streams)));
    }

    std::string image_, theirs_;
    SandboxRecord record_;
};

TEST_F(DockerTells, OfABorrowedContainerWhatItsEngineSays)
{
    lend("--network host --memory 64m --pids-limit 99 -v /usr/share:/mnt/shared:ro");
    const json::Object attachment{{"type", "docker_container"}, {"container_id", theirs_}};
    EXPECT_EQ(to_string(record_.spec.root), "image:" + image_);
    EXPECT_EQ(attachment_of(record_), json::Value(attachment));

    const auto told = json::parse(cli("inspect --json lent"));
    ASSERT_TRUE(told);
    const auto& page = told->as_object();
    const auto& is = page.at("attachment").as_object();
    EXPECT_EQ(is.at("container_id"), json::Value(theirs_));
    EXPECT_EQ(is.at("network"), json::Value("host"));
    EXPECT_EQ(is.at("limits").at("memory_bytes"), json::Value(64 << 20));
    EXPECT_EQ(is.at("limits").at("pids"), json::Value(99));
    EXPECT_EQ(is.at("mounts").at(0).at("target"), json::Value("/mnt/shared"));
    EXPECT_EQ(is.at("mounts").at(0).at("mode"), json::Value("ro"));
    EXPECT_THAT(page.at("rules").as_array(), IsEmpty()) << "nobody asked for rules, and none is held";
    EXPECT_TRUE(page.at("spec").at("policy").is_null());
    EXPECT_THAT(cli("inspect lent"), AllOf(HasSubstr("borrowed: berth holds no rules of it"),
                                           HasSubstr(theirs_), Not(HasSubstr("loopback"))));
    BlockingPool pool(1);
    Proving proving(berth_->lifecycle(), pool, data_);
    const auto refused = berth_->run(proving.prove("lent"));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Denied);
    EXPECT_THAT(refused.error().line(), HasSubstr("borrowed"));

    for (int times = 0; times < 2; ++times) {
        const auto gone = json::parse(cli("detach --json " + record_.id()));
        ASSERT_TRUE(gone);
        EXPECT_THAT(json::dump(*gone), HasSubstr(json::dump(attachment)));
    }
    for (const char* type : {"sandbox_attached", "sandbox_detached"}) {
        const auto events = berth_->store().ledger({.sandbox = record_.id(), .type = type});
        ASSERT_EQ(events->size(), 1u);
        EXPECT_EQ(events->front().data.at("attachment"), json::Value(attachment));
    }
}

TEST_F(DockerTells, ABorrowedContainerThatIsPausedIsThawed)
{
    lend("--network none");
    command("docker pause theirs");
    EXPECT_THAT(cli("inspect lent"), HasSubstr("paused"));
    ASSERT_TRUE(berth_->run(berth_->lifecycle().resume("lent")));
    EXPECT_EQ(command("docker inspect -f '{{.State.Status}}' theirs"), "running");
    command("docker pause theirs");
    EXPECT_EQ(shell("lent", "echo here"), "here\n");
    EXPECT_EQ(command("docker inspect -f '{{.State.Status}}' theirs"), "running");
}

TEST_F(DockerTells, ABorrowedContainerThatWasStoppedIsToldAsStopped)
{
    lend("--network none");
    command("docker stop -t 0 theirs");
    EXPECT_THAT(cli("inspect lent"), AllOf(HasSubstr("stopped"), Not(HasSubstr("healthy"))));
    const auto refused = berth_->run(berth_->lifecycle().use("lent"));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Conflict);
    EXPECT_THAT(refused.error().line(), AllOf(HasSubstr("stopped"), HasSubstr("its owner's to start")));
}

TEST_F(DockerTells, WhatIsMadeOfABorrowedContainerIsOurs)
{
    lend("--network host");
    shell("lent", "echo work > /home/user/note");
    ForkWish wish;
    wish.name = "copy";
    const auto forked = berth_->run(berth_->lifecycle().fork("lent", wish));
    ASSERT_TRUE(forked) << forked.error().line();
    EXPECT_TRUE(attachment_of(forked->forks.front()).is_null());
    EXPECT_EQ(shell("copy", "cat /home/user/note"), "work\n");
    EXPECT_EQ(
        command("docker inspect -f '{{.HostConfig.NetworkMode}}' berth-" + forked->forks.front().native),
        "none")
        << "nobody asked us for its network";
}

TEST_F(DockerTells, WhomAnImageWithoutTheDefaultUserRunsCommandsAs)
{
    const auto acquired = acquire(without_user());
    ASSERT_TRUE(acquired) << acquired.error().line();
    EXPECT_THAT(acquired->notes, Contains("the image has no account 'user': commands run as root, uid 0"));
    EXPECT_EQ(shell("nobody", "id -u"), "0\n");
    EXPECT_THAT(cli("inspect nobody"), HasSubstr("root, uid 0"));
    std::string output;
    const auto refused = run("nobody", {.argv = {"id", "-u"}, .user = "user"}, output);
    ASSERT_FALSE(refused) << output;
    EXPECT_EQ(refused.error().code, Code::NotFound);
    EXPECT_THAT(refused.error().line(), HasSubstr("no account 'user'"));
}

TEST_F(DockerTells, AUserWhoseHomeDoesNotExistStartsAtTheRoot)
{
    made();
    EXPECT_EQ(shell("demo", "pwd", "nobody"), "/\n");
    EXPECT_EQ(shell("demo", "pwd", "root"), "/root\n");
    std::string output;
    const auto refused = run("demo", {.argv = {"pwd"}, .cwd = "/nonexistent"}, output);
    ASSERT_FALSE(refused) << "asked for, it must be there";
}

TEST_F(DockerTells, WhatTheEngineLeavesOutOfASnapshot)
{
    made();
    const auto whole = berth_->run(berth_->lifecycle().snapshot("demo", {}));
    ASSERT_TRUE(whole) << whole.error().line();
    EXPECT_THAT(whole->notes, Not(Contains(HasSubstr("part of it"))));
    shell("demo", "cd /home/user && python3 -c 'import os, socket\n"
                  "socket.socket(socket.AF_UNIX).bind(\"sock\")\n"
                  "open(\"marked\", \"w\").close()\n"
                  "os.setxattr(\"marked\", \"user.mark\", b\"1\")'");
    const auto taken = berth_->run(berth_->lifecycle().snapshot("demo", {}));
    ASSERT_TRUE(taken) << taken.error().line();
    EXPECT_THAT(taken->notes,
                AllOf(Contains("1 sockets are not part of it"),
                      Contains(HasSubstr("extended attributes of 1 files are not part of it"))));
    RestoreWish back;
    back.as_new = true;
    back.name = "back";
    ASSERT_TRUE(berth_->run(berth_->lifecycle().restore(taken->record.id, back)));
    EXPECT_EQ(shell("back", "cd /home/user && ls && python3 -c 'import os; print(os.listxattr(\"marked\"))'"),
              "marked\n[]\n")
        << "the note would be wrong";
}

} // namespace
} // namespace berth

// The tiers on the local backend, and on the one that BERTH_TEST_BACKEND names, with a real keeper behind
// each sandbox. A second process is a second Berth on the same state directory; what a process knows of
// itself only is not shared between the two.

#include "berth/berth.hpp"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/io.hpp"
#include "base/json.hpp"
#include "support/docker_engine.hpp"

namespace berth {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class LocalTiers : public ::testing::Test {
protected:
    void SetUp() override
    {
        if (const auto& lacking = test::TestedBackend::get().lacking; !lacking.empty())
            GTEST_SKIP() << lacking;
    }
    LocalTiers()
    {
        char path[] = "/tmp/berth-tiers-XXXXXX";
        data_ = ::mkdtemp(&path[0]);
    }
    ~LocalTiers() override
    {
        if (auto last = open()) {
            const auto all = last->store().list({.with_dead = true});
            for (const auto& record : *all) (void)last->run(last->lifecycle().destroy(record.id()));
            (void)last->run(last->lifecycle().collect({.grace = 0s, .keep_last = 0}));
        }
        std::error_code ignored;
        std::filesystem::remove_all(data_, ignored);
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
        const auto& tested = test::TestedBackend::get();
        out.backend = tested.name;
        if (!tested.root_tar.empty())
            out.spec.root = {.kind = Template::Kind::Tar, .path = tested.root_tar, .tag = {}};
        return out;
    }
    static Acquired must(Result<Acquired> answer)
    {
        EXPECT_TRUE(answer) << answer.error().line();
        return answer ? *std::move(answer) : Acquired{};
    }
    static std::string shell(Berth& berth, const std::string& ref, const std::string& script)
    {
        ExecSpec exec;
        exec.argv = {"sh", "-c", script};
        exec.timeout = 20s;
        std::string output;
        RunStreams streams;
        streams.on_event = [&](const ExecEvent& event) { output += event.bytes; };
        const auto outcome = berth.run(berth.exec(ref, std::move(exec), std::move(streams)));
        EXPECT_TRUE(outcome) << outcome.error().line();
        if (outcome) EXPECT_TRUE(outcome->status.success()) << to_string(outcome->status) << ": " << output;
        return output;
    }

    std::string data_;
};

TEST_F(LocalTiers, ASecondProcessAttachesAndTellsNoSecondCreation)
{
    auto one = open();
    const auto made = must(one->run(one->lifecycle().acquire(wish("demo"))));
    shell(*one, "demo", "echo here > ~/note");
    one.reset();
    auto two = open();
    const auto again = must(two->run(two->lifecycle().acquire(wish("demo"))));
    EXPECT_EQ(again.tier, Tier::Attached);
    EXPECT_EQ(again.record.id(), made.record.id());
    EXPECT_EQ(shell(*two, "demo", "cat ~/note"), "here\n");
    EXPECT_EQ(two->store().ledger({.type = "sandbox_created"})->size(), 1u);
}

TEST_F(LocalTiers, AStoppedOneIsStartedWithItsFiles)
{
    auto one = open();
    const auto made = must(one->run(one->lifecycle().acquire(wish("demo"))));
    shell(*one, "demo", "echo here > ~/note");
    ASSERT_TRUE(one->run(one->lifecycle().stop("demo", 1s)));
    auto two = open();
    const auto again = must(two->run(two->lifecycle().acquire(wish("demo"))));
    EXPECT_EQ(again.tier, Tier::Started);
    EXPECT_EQ(again.record.native, made.record.native);
    EXPECT_EQ(shell(*two, "demo", "cat ~/note"), "here\n");
    EXPECT_EQ(shell(*one, "demo", "cat ~/note"), "here\n") << "the first process sees the new keeper, too";
}

TEST_F(LocalTiers, AfterTheMachineWentDownItIsStartedWithItsFilesAndSaysSinceWhenNothingIsSure)
{
    if (test::TestedBackend::get().name != "local")
        GTEST_SKIP() << "the files of a container are its engine's: backend local alone keeps them by itself";
    auto one = open();
    const auto made = must(one->run(one->lifecycle().acquire(wish("demo"))));
    shell(*one, "demo", "echo here > ~/note");
    one.reset();
    // Every process is gone, and what tells this start of the machine from others is another.
    for (const auto& process : std::filesystem::directory_iterator("/proc")) {
        std::ifstream line(process.path() / "cmdline", std::ios::binary);
        const std::string words((std::istreambuf_iterator<char>(line)), {});
        if (words.starts_with(std::string("k\0", 2)) &&
            words.find("/" + made.record.native) != std::string::npos)
            ::kill(std::stoi(process.path().filename()), SIGKILL);
    }
    const auto record = data_ + "/sandbox/" + made.record.native + "/instance";
    auto document = *json::parse(*read_file(record));
    ASSERT_FALSE(document.at("boot").as_string().empty());
    document.as_object()["boot"] = "another-start-of-the-machine";
    std::ofstream(record) << json::dump(document);

    auto two = open();
    const auto again = must(two->run(two->lifecycle().acquire(wish("demo"))));
    EXPECT_EQ(again.tier, Tier::Started);
    EXPECT_EQ(again.record.id(), made.record.id());
    EXPECT_EQ(again.record.native, made.record.native);
    EXPECT_TRUE(again.unsynced_since);
    EXPECT_EQ(shell(*two, "demo", "cat ~/note"), "here\n");
    const auto attached = must(two->run(two->lifecycle().acquire(wish("demo"))));
    EXPECT_EQ(attached.tier, Tier::Attached);
    EXPECT_FALSE(attached.unsynced_since) << "told once";
}

TEST_F(LocalTiers, OneWhoseFilesWereTakenAwayIsRestoredFromItsSnapshot)
{
    auto one = open();
    const auto made = must(one->run(one->lifecycle().acquire(wish("demo"))));
    shell(*one, "demo", "echo kept > ~/note");
    const auto taken = one->run(one->lifecycle().snapshot("demo", {}));
    ASSERT_TRUE(taken) << taken.error().line();
    shell(*one, "demo", "echo late > ~/note");
    auto backend = one->backend(test::TestedBackend::get().name);
    ASSERT_TRUE(backend);
    ASSERT_TRUE(one->run((*backend)->destroy(Lifecycle::handle(made.record))))
        << "behind the lifecycle's back";
    auto two = open();
    const auto again = must(two->run(two->lifecycle().acquire(wish("demo"))));
    EXPECT_EQ(again.tier, Tier::Restored);
    EXPECT_EQ(again.record.id(), made.record.id());
    EXPECT_NE(again.record.native, made.record.native);
    EXPECT_EQ(again.record.generation, 2u);
    EXPECT_EQ(shell(*two, "demo", "cat ~/note"), "kept\n");
    EXPECT_EQ(two->store().ledger({.type = "sandbox_created"})->size(), 1u);
}

TEST_F(LocalTiers, OneThatIsGoneWithoutASnapshotIsFreshUnderAnotherId)
{
    auto one = open();
    const auto made = must(one->run(one->lifecycle().acquire(wish("demo"))));
    auto backend = one->backend(test::TestedBackend::get().name);
    ASSERT_TRUE(one->run((*backend)->destroy(Lifecycle::handle(made.record))));
    const auto again = must(one->run(one->lifecycle().acquire(wish("demo"))));
    EXPECT_EQ(again.tier, Tier::Fresh);
    EXPECT_NE(again.record.id(), made.record.id());
}

TEST_F(LocalTiers, ARestoreReplacesTheInstanceAndKeepsTheId)
{
    auto one = open();
    const auto made = must(one->run(one->lifecycle().acquire(wish("demo"))));
    shell(*one, "demo", "echo kept > ~/note");
    const auto taken = one->run(one->lifecycle().snapshot("demo", {}));
    ASSERT_TRUE(taken) << taken.error().line();
    shell(*one, "demo", "echo late > ~/note");
    const auto back = must(one->run(one->lifecycle().restore(taken->record.id, {})));
    EXPECT_EQ(back.record.id(), made.record.id());
    EXPECT_EQ(back.record.generation, 2u);
    EXPECT_EQ(shell(*one, "demo", "cat ~/note"), "kept\n");
    const auto found = one->run((*one->backend(test::TestedBackend::get().name))->scan());
    ASSERT_TRUE(found);
    EXPECT_EQ(found->size(), 1u) << "the first generation is gone";
}

TEST_F(LocalTiers, ADamagedSnapshotLeavesTheLivingOneAlone)
{
    auto one = open();
    must(one->run(one->lifecycle().acquire(wish("demo"))));
    const auto taken = one->run(one->lifecycle().snapshot("demo", {}));
    ASSERT_TRUE(taken);
    shell(*one, "demo", "echo late > ~/note");
    for (const auto& file : std::filesystem::directory_iterator(data_ + "/snapshot/" + taken->record.id))
        std::filesystem::resize_file(file.path(), 7);
    const auto back = one->run(one->lifecycle().restore(taken->record.id, {}));
    ASSERT_FALSE(back);
    EXPECT_EQ(shell(*one, "demo", "cat ~/note"), "late\n");
}

TEST_F(LocalTiers, AWorkspaceTarCarriesTheHomeAndIsCheckedBeforeItIsUsed)
{
    auto one = open();
    must(one->run(one->lifecycle().acquire(wish("demo"))));
    shell(*one, "demo", "echo kept > ~/note; ln -s /usr/bin/env ~/link; echo other > /tmp/other");
    const auto taken = one->run(one->lifecycle().snapshot("demo", {.kind = "berth_workspace_tar"}));
    ASSERT_TRUE(taken) << taken.error().line();
    EXPECT_EQ(taken->record.sha256.size(), 64u);
    const auto copy = must(one->run(one->lifecycle().restore(taken->record.id, {.as_new = true})));
    EXPECT_EQ(
        shell(*one, copy.record.id(), "cat ~/note; readlink ~/link; ls /tmp/other 2>/dev/null || echo none"),
        "kept\n/usr/bin/env\nnone\n");
    const std::string file = data_ + "/snapshot/" + taken->record.id + "/" + taken->record.file;
    std::filesystem::resize_file(file, std::filesystem::file_size(file) - 3);
    const auto refused = one->run(one->lifecycle().restore(taken->record.id, {.as_new = true}));
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().line(), HasSubstr("damaged"));
    EXPECT_EQ(one->run(one->lifecycle().snapshot("demo", {.kind = "no_such_kind"})).error().code,
              Code::Unsupported);
}

TEST_F(LocalTiers, ATarOfAStoppedSandboxIsTakenAndRemoved)
{
    auto one = open();
    must(one->run(one->lifecycle().acquire(wish("demo"))));
    shell(*one, "demo", "echo kept > ~/note");
    ASSERT_TRUE(one->run(one->lifecycle().stop("demo", 0ms)));
    const auto taken = one->run(one->lifecycle().snapshot("demo", {.kind = "berth_workspace_tar"}));
    ASSERT_TRUE(taken) << taken.error().line();
    EXPECT_EQ(one->run(one->lifecycle().refresh("demo"))->state, State::Stopped);
    const auto gone = one->run(one->lifecycle().remove_snapshot(taken->record.id));
    EXPECT_TRUE(gone) << gone.error().line();
    EXPECT_FALSE(std::filesystem::exists(data_ + "/snapshot/" + taken->record.id));
}

/// A root of its own, small enough to be copied again and again.
class RootTars : public LocalTiers {
protected:
    void SetUp() override
    {
        root_ = data_ + "-root";
        for (const char* name : {"bin", "etc", "root", "tmp", "home/user", "usr", "var/lib"})
            std::filesystem::create_directories(root_ + "/" + name);
        std::filesystem::copy_file("/bin/busybox", root_ + "/bin/busybox");
        for (const char* tool : {"sh", "cat", "rm", "ls", "ln", "chmod", "stat", "readlink", "mkdir", "echo"})
            std::filesystem::create_symlink("busybox", root_ + "/bin/" + tool);
        std::ofstream(root_ + "/etc/passwd")
            << "root:x:0:0::/root:/bin/sh\nuser:x:1000:1000::/home/user:/bin/sh\n";
        std::ofstream(root_ + "/var/lib/given") << "template\n";
        if (::geteuid() == 0) ASSERT_EQ(::chown((root_ + "/home/user").c_str(), 1000, 1000), 0);
    }
    ~RootTars() override { std::filesystem::remove_all(root_); }
    AcquireRequest rooted(const std::string& key) const
    {
        auto out = wish(key);
        out.spec.root = {.kind = Template::Kind::Directory, .path = root_, .tag = {}};
        out.spec.env["PATH"] = "/bin";
        if (::geteuid() == 0) out.spec.user = "root";
        return out;
    }
    std::string root_;
};

TEST_F(RootTars, EverythingComesBackAndWhatWasRemovedStaysAway)
{
    auto one = open();
    must(one->run(one->lifecycle().acquire(rooted("demo"))));
    shell(*one, "demo",
          "echo new > /var/lib/new; rm /var/lib/given; chmod 640 /var/lib/new; ln -s new /var/lib/link; "
          "ln /var/lib/new /var/lib/twin; echo in > /tmp/in");
    const auto taken = one->run(one->lifecycle().snapshot("demo", {.kind = "berth_rootfs_tar"}));
    ASSERT_TRUE(taken) << taken.error().line();
    std::filesystem::remove_all(root_ + "/var");
    const auto copy = must(one->run(one->lifecycle().restore(taken->record.id, {.as_new = true})));
    const std::string look = "cat /var/lib/new /var/lib/link; stat -c '%a %h' /var/lib/new; ls /var/lib";
    EXPECT_EQ(shell(*one, copy.record.id(), look), "new\nnew\n640 2\nlink\nnew\ntwin\n");

    // The tar may go: what was made from it stands, starts again, and is a place for further snapshots.
    ASSERT_TRUE(one->run(one->lifecycle().remove_snapshot(taken->record.id)));
    shell(*one, copy.record.id(), "echo later > /var/lib/later");
    ASSERT_TRUE(one->run(one->lifecycle().stop(copy.record.id(), 0ms)));
    must(one->run(one->lifecycle().use(copy.record.id())));
    const auto forked = one->run(one->lifecycle().fork(copy.record.id(), {}));
    ASSERT_TRUE(forked) << forked.error().line();
    EXPECT_EQ(shell(*one, forked->forks.front().id(), "ls /var/lib"), "later\nlink\nnew\ntwin\n");
}

TEST_F(RootTars, ASnapshotOutlivesTheArchiveItsTemplateCameFrom)
{
    auto one = open();
    must(one->run(one->lifecycle().acquire(rooted("demo"))));
    const auto root = one->run(one->lifecycle().snapshot("demo", {.kind = "berth_rootfs_tar"}));
    ASSERT_TRUE(root) << root.error().line();
    const std::string archive = data_ + "-root.tar.zst";
    std::filesystem::copy_file(data_ + "/snapshot/" + root->record.id + "/root.tar.zst", archive);
    auto from_tar = rooted("tar");
    from_tar.spec.root = {.kind = Template::Kind::Tar, .path = archive, .tag = {}};
    must(one->run(one->lifecycle().acquire(from_tar)));
    shell(*one, "tar", "echo kept > /var/lib/note");
    const auto taken = one->run(one->lifecycle().snapshot("tar", {}));
    ASSERT_TRUE(taken) << taken.error().line();
    std::filesystem::remove(archive);
    const auto copy = must(one->run(one->lifecycle().restore(taken->record.id, {.as_new = true})));
    EXPECT_EQ(shell(*one, copy.record.id(), "cat /var/lib/note"), "kept\n");
    const auto collected = one->run(one->lifecycle().collect({}));
    ASSERT_TRUE(collected) << collected.error().line();
    for (const auto& action : collected->actions) EXPECT_EQ(action.failed, "") << action.object;
}

TEST_F(RootTars, TheHostsOwnProgramsAreNotTakenAlong)
{
    auto one = open();
    must(one->run(one->lifecycle().acquire(wish("demo"))));
    const auto refused = one->run(one->lifecycle().snapshot("demo", {.kind = "berth_rootfs_tar"}));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Unsupported);
    EXPECT_THAT(refused.error().line(), HasSubstr("berth_workspace_tar"));
    EXPECT_FALSE(std::filesystem::exists(data_ + "/snapshot"));
}

/// Larger than the archives that a stranger may send, and with names that are none elsewhere.
TEST_F(LocalTiers, WhatAWorkspaceTarCouldTakeItBringsBack)
{
    auto one = open();
    must(one->run(one->lifecycle().acquire(wish("demo"))));
    shell(*one, "demo", R"(cd && truncate -s 5G big && touch 'a\b' c:d)");
    const auto taken = one->run(one->lifecycle().snapshot("demo", {.kind = "berth_workspace_tar"}));
    ASSERT_TRUE(taken) << taken.error().line();
    const auto copy = must(one->run(one->lifecycle().restore(taken->record.id, {.as_new = true})));
    EXPECT_EQ(shell(*one, copy.record.id(), "cd && ls && stat -c %s big"), "a\\b\nbig\nc:d\n5368709120\n");
}

class ForkSafety : public LocalTiers {
protected:
    void SetUp() override
    {
        LocalTiers::SetUp();
        if (IsSkipped()) return;
        berth_ = open();
        must(berth_->run(berth_->lifecycle().acquire(wish("source"))));
    }
    std::string fork()
    {
        const auto forked = berth_->run(berth_->lifecycle().fork("source", {}));
        EXPECT_TRUE(forked) << forked.error().line();
        return forked ? forked->forks.front().id() : std::string{};
    }
    std::unique_ptr<Berth> berth_;
};

TEST_F(ForkSafety, FilesAreThereAndNoLongerShared)
{
    shell(*berth_, "source", "echo one > ~/a");
    const auto copy = fork();
    EXPECT_EQ(shell(*berth_, copy, "cat ~/a; echo two > ~/a"), "one\n");
    EXPECT_EQ(shell(*berth_, "source", "cat ~/a"), "one\n");
    EXPECT_EQ(shell(*berth_, copy, "cat ~/a"), "two\n");
}

TEST_F(ForkSafety, TheMachineIdDiffers)
{
    const auto copy = fork();
    EXPECT_NE(shell(*berth_, copy, "cat /etc/machine-id"), shell(*berth_, "source", "cat /etc/machine-id"));
}

TEST_F(ForkSafety, TheHostNameDiffers)
{
    const auto copy = fork();
    EXPECT_NE(shell(*berth_, copy, "hostname"), shell(*berth_, "source", "hostname"));
}

TEST_F(ForkSafety, RandomNumbersDiffer)
{
    const auto copy = fork(), other = fork();
    const std::string ask = "head -c 16 /dev/urandom | od -An -tx1";
    EXPECT_NE(shell(*berth_, copy, ask), shell(*berth_, other, ask));
}

TEST_F(ForkSafety, SecretsOfAnExecAreNotInherited)
{
    ExecSpec exec;
    exec.argv = {"sh", "-c", "echo used > ~/proof"};
    exec.env["TOKEN"] = "a-secret-of-one-exec";
    ASSERT_TRUE(berth_->run(berth_->exec("source", std::move(exec))));
    const auto copy = fork();
    EXPECT_EQ(shell(*berth_, copy,
                    "cat ~/proof; cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -c "
                    "a-secret || true"),
              "used\n0\n");
    for (const auto& entry : std::filesystem::recursive_directory_iterator(
             data_, std::filesystem::directory_options::skip_permission_denied)) {
        if (!entry.is_regular_file() || entry.file_size() > 4'000'000) continue;
        std::ifstream in(entry.path());
        const std::string text((std::istreambuf_iterator<char>(in)), {});
        EXPECT_THAT(text, testing::Not(HasSubstr("a-secret-of-one-exec"))) << entry.path();
    }
}

TEST_F(ForkSafety, OpenSocketsAreDead)
{
    shell(*berth_, "source",
          "python3 -c \"import socket; s=socket.socket(socket.AF_UNIX); s.bind('/tmp/s'); "
          "s.listen()\" ");
    const auto copy = fork();
    EXPECT_EQ(
        shell(*berth_, copy,
              "python3 -c \"\nimport socket\ns=socket.socket(socket.AF_UNIX)\ntry:\n s.connect('/tmp/s')\n "
              "print('alive')\nexcept OSError: print('dead')\n\""),
        "dead\n");
}

} // namespace
} // namespace berth

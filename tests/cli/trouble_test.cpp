// When something is in the way: a full disk, a lost store, an output nobody takes, a signal in the middle.

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "cli/kept.hpp"

namespace berth::test {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

class Trouble : public Kept {};

/// A disk of its own, small enough to be filled.
class FullDisk : public testing::Test {
protected:
    void SetUp() override
    {
        BERTH_NEEDS_ROOT();
        disk_ = Place::here().dir("disk");
        ASSERT_EQ(::mount("berth-test", disk_.c_str(), "tmpfs", 0, "size=256m,mode=0700"), 0);
        mounted_ = true;
        data_ = disk_ + "/state";
    }
    void TearDown() override
    {
        if (!mounted_) return;
        fs::remove(disk_ + "/filler");
        EXPECT_EQ(here({"rm", "--all"}).code, 0);
        ::umount2(disk_.c_str(), MNT_DETACH);
    }

    [[nodiscard]] Ended here(Words words, const Words& command = {}) const
    {
        words.insert(words.begin() + 1, {"--data", data_});
        words.insert(words.end(), command.begin(), command.end());
        return berth(std::move(words));
    }
    void fill() const
    {
        const UniqueFd file(
            ::open((disk_ + "/filler").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC | O_APPEND, 0600));
        for (const std::size_t piece : {std::size_t{1} << 20, std::size_t{4096}}) {
            const std::string bytes(piece, 'x');
            while (::write(file.get(), bytes.data(), bytes.size()) > 0) {
            }
        }
        ASSERT_EQ(errno, ENOSPC);
    }

    std::string disk_, data_;
    bool mounted_ = false;
};

TEST_F(FullDisk, CanBeReadAndEmptied)
{
    const auto made = here({"create", "--name", "box"});
    ASSERT_EQ(made.code, 0) << made.err;
    const auto id = trimmed(made.out);
    ASSERT_EQ(here({"create", "--name", "other"}).code, 0);
    const auto taken = here({"snapshot", "box", "--quiet"});
    ASSERT_EQ(taken.code, 0) << taken.err;
    ASSERT_TRUE(fs::exists(data_ + "/ballast"));
    fill();

    const auto listed = here({"ls"});
    EXPECT_EQ(listed.code, 0) << listed.err;
    EXPECT_THAT(listed.out, HasSubstr(id));
    EXPECT_EQ(here({"inspect", "box"}).code, 0);
    EXPECT_THAT(here({"snapshots"}).out, HasSubstr(trimmed(taken.out)));
    const auto refused = here({"exec"}, {"box", "--", "true"});
    EXPECT_EQ(refused.code, 125);
    EXPECT_THAT(refused.err, AllOf(HasSubstr("no room in " + data_), HasSubstr("berth gc")));
    EXPECT_THAT(here({"doctor"}).out, HasSubstr("free space"));
    ASSERT_TRUE(fs::exists(data_ + "/ballast")) << "nobody who only looks uses it up";

    const auto stopped = here({"stop", "box"});
    EXPECT_EQ(stopped.code, 0) << stopped.err;
    const auto dropped = here({"snapshots"}, {"rm", "--data", data_, trimmed(taken.out)});
    EXPECT_EQ(dropped.code, 0) << dropped.err;
    const auto collected = here({"gc"});
    EXPECT_EQ(collected.code, 0) << collected.err << collected.out;
    const auto removed = here({"rm", "box"});
    EXPECT_EQ(removed.code, 0) << removed.err;

    fs::remove(disk_ + "/filler");
    EXPECT_EQ(here({"exec"}, {"other", "--", "true"}).code, 0);
    EXPECT_TRUE(fs::exists(data_ + "/ballast")) << "taken again when there is room";
}

TEST_F(FullDisk, KeepsNoFilesOfASnapshotThatIsNotKnown)
{
    ASSERT_EQ(here({"create", "--name", "box"}).code, 0);
    fill();
    const auto filler = disk_ + "/filler";
    constexpr std::size_t page = 4096;
    // Somewhere between no room for anything and room for all of it there is room for its files alone.
    for (int i = 0; i < 100 && here({"snapshot", "box"}).code != 0; ++i)
        fs::resize_file(filler, fs::file_size(filler) - page);
    const auto known = here({"snapshots", "-q"}).out;
    for (const auto& kept : fs::directory_iterator(data_ + "/snapshot"))
        EXPECT_THAT(known, HasSubstr(kept.path().filename().string()));
}

TEST_F(FullDisk, DoesNotHoldBackTheEndOfACommand)
{
    const auto gate = Place::here().dir("gate"); // on another disk
    ASSERT_EQ(here({"create", "--name", "box", "--workspace", gate}).code, 0);
    Started running({.args = {"exec", "--data", data_, "box", "--", "sh", "-c",
                              "echo up; while [ ! -e " + gate +
                                  "/go ]; do sleep 0.1; done; "
                                  "dd if=/dev/zero bs=1M count=8 2>/dev/null; exit 7"}});
    ASSERT_TRUE(running.wait_for("up"));
    fill();
    std::ofstream(gate + "/go") << "now";
    const auto ended = running.finish();
    EXPECT_EQ(ended.code, 7) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr("missing here: there was no room"));
}

TEST_F(Trouble, ALostStoreIsMadeAnewWithWhatItKnew)
{
    const auto data = Place::here().dir("lost") + "/state";
    const auto here = [&](Words words) {
        words.insert(words.begin() + 1, {"--data", data});
        return berth(std::move(words));
    };
    const auto made = here({"create", "--key", "work", "--name", "box"});
    ASSERT_EQ(made.code, 0) << made.err;
    const auto taken = here({"snapshot", "box", "--quiet"});
    ASSERT_EQ(taken.code, 0) << taken.err;
    {
        std::ofstream(data + "/store.db", std::ios::trunc) << std::string(8192, 'x');
        fs::remove(data + "/store.db-wal");
    }
    const auto damaged = here({"ls"});
    EXPECT_NE(damaged.code, 0);
    EXPECT_THAT(damaged.err, HasSubstr("mv " + data + "/store.db " + data + "/store.db.damaged"));
    EXPECT_THAT(here({"doctor"}).out, HasSubstr("damaged"));
    fs::rename(data + "/store.db", data + "/store.db.damaged");

    EXPECT_EQ(here({"gc"}).code, 0);
    EXPECT_EQ(here({"ls", "-q"}).out, made.out);
    EXPECT_EQ(here({"snapshots", "-q"}).out, taken.out);
    const auto again = here({"create", "--key", "work", "--name", "box"});
    EXPECT_EQ(again.out, made.out) << again.err;
    EXPECT_EQ(here({"restore", "--new", trimmed(taken.out)}).code, 0);
    EXPECT_EQ(here({"rm", "--all"}).code, 0);
}

TEST_F(Trouble, OutputThatCannotBeWrittenIsNoSuccess)
{
    const auto id = create();
    ASSERT_EQ(berth({"exec", id, "--", "echo", "hi"}).code, 0);
    const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
    const std::vector<std::pair<int, Words>> all{{1, {"version"}},
                                                 {1, {"--help"}},
                                                 {1, {"ls", "--help"}},
                                                 {1, {"policy", "show", "sandbox"}},
                                                 {1, {"completion", "bash"}},
                                                 {1, {"ls"}},
                                                 {1, {"logs", id}},
                                                 {125, {"exec", id, "--", "echo", "hi"}},
                                                 {125, {"exec", "--detach", id, "--", "true"}},
                                                 {125, {"run", "--", "echo", "hi"}},
                                                 {125, {"run", "--json", "--", "true"}}};
    for (const auto& [code, words] : all) {
        const auto ended = run({.args = words, .out = full.get()});
        EXPECT_EQ(ended.code, code) << words.front() << ": " << ended.err;
        EXPECT_THAT(ended.err, HasSubstr("output")) << words.front();
    }
}

TEST_F(Trouble, AnInterruptedSnapshotLeavesNothingFrozenAndNothingHalfMade)
{
    const auto id = create();
    ASSERT_EQ(berth({"exec", "--detach", id, "--", "sleep", "1000"}).code, 0);
    if (berth({"snapshot", id, "--quiet"}).code == 6)
        GTEST_SKIP()
            << "this user has no control groups, so nothing is frozen: sudo ./dev test -R Interrupted";
    for (const char* verb : {"snapshot", "fork"}) {
        // The hook stands for the signal: it ends the child that copies, in the middle of it.
        const auto ended = run({.args = {verb, id},
                                .program = hooks_program(),
                                .env = {{"BERTH_TEST_KILL", "snapshot: frozen"}}});
        EXPECT_EQ(ended.code, 128 + SIGKILL) << verb << ended.err;
        EXPECT_THAT(ended.err, HasSubstr("interrupted")) << verb;
        std::vector<std::string> left;
        for (const auto& file : files_below(Place::here().state()))
            if (file.contains("/copying") || file.contains("/.new-") || file.contains(".new/"))
                left.push_back(file);
        EXPECT_THAT(left, IsEmpty()) << verb;
    }
    EXPECT_EQ(berth({"snapshot", id, "--quiet"}).code, 0);
}

TEST_F(Trouble, ASignalEndsASnapshotThatWaits)
{
    const auto id = create();
    // Who holds every lock keeps it waiting for as long as this takes.
    UniqueFd held(::open((Place::here().state() + "/lock").c_str(), O_RDWR | O_CLOEXEC));
    struct flock all{};
    all.l_type = F_WRLCK;
    all.l_whence = SEEK_SET;
    ASSERT_EQ(::fcntl(held.get(), F_OFD_SETLK, &all), 0);
    Started taking({.args = {"snapshot", id}});
    const auto children = fmt::format("/proc/{}/task/{}/children", taking.pid(), taking.pid());
    ASSERT_TRUE(eventually([&] { return !contents(children).empty(); }));
    taking.signal(SIGTERM);
    const auto ended = taking.finish();
    EXPECT_EQ(ended.code, 128 + SIGTERM) << ended.err;
    EXPECT_THAT(ended.err, HasSubstr("interrupted"));
    held.reset();
    EXPECT_EQ(berth({"snapshots", "-q", id}).out, "");
}

TEST_F(Trouble, ACommandThatIgnoresTheFirstSignalIsEndedByTheSecond)
{
    const auto id = create();
    Started running({.args = {"exec", id, "--", "sh", "-c",
                              "trap 'echo no' TERM; echo up; while :; do sleep 0.1; done"}});
    ASSERT_TRUE(running.wait_for("up"));
    running.signal(SIGTERM);
    ASSERT_TRUE(running.wait_for("no"));
    running.signal(SIGTERM);
    EXPECT_EQ(running.finish().code, 128 + SIGKILL);
}

TEST_F(Trouble, OneCommandCanBeKilledOrSignalled)
{
    const auto id = create();
    const auto exec = trimmed(berth({"exec", "--detach", id, "--", "sh", "-c",
                                     "trap 'echo got; exit 3' TERM; echo up; while :; do sleep 0.1; done"})
                                  .out);
    ASSERT_TRUE(eventually([&] { return berth({"logs", id, exec}).out == "up\n"; }));
    EXPECT_EQ(berth({"kill", id, exec, "--signal", "NOSUCH"}).code, 2);
    EXPECT_EQ(berth({"kill", id, exec, "--signal", "TERM"}).out, exec + "\n");
    ASSERT_TRUE(eventually([&] { return berth({"logs", id, exec}).out == "up\ngot\n"; }));
    const auto next = trimmed(berth({"exec", "--detach", id, "--", "sleep", "1000"}).out);
    const auto told = document({"kill", id, next});
    EXPECT_EQ(told.at("id").as_string(), next);
    EXPECT_EQ(told.at("outcome").as_string(), "signal 15");
    EXPECT_THAT(berth({"logs", "--follow", id, next}).err, HasSubstr("ended"));
}

TEST_F(Trouble, TheEndOfALogIsShownByLines)
{
    const auto id = create();
    ASSERT_EQ(berth({"exec", id, "--", "sh", "-c", "seq 1 1000; printf last"}).code, 0);
    EXPECT_EQ(berth({"logs", id, "--tail", "3"}).out, "999\n1000\nlast");
    EXPECT_EQ(berth({"logs", id, "--tail", "0"}).out, "");
    EXPECT_EQ(berth({"logs", id, "--tail", "5000"}).out, berth({"logs", id}).out);
    EXPECT_EQ(berth({"logs", id, "--tail", "x"}).code, 2);
}

TEST_F(Trouble, AListIsNarrowedByStateAndLabel)
{
    const auto one = create({"--label", "team=blue"});
    const auto two = create({"--label", "team=red"});
    ASSERT_EQ(berth({"stop", two}).code, 0);
    EXPECT_EQ(berth({"ls", "-q", "--state", "running"}).out, one + "\n");
    EXPECT_EQ(berth({"ls", "-q", "--state", "stopped", "--label", "team=red"}).out, two + "\n");
    EXPECT_EQ(berth({"ls", "-q", "--label", "team"}).out, one + "\n" + two + "\n");
    EXPECT_EQ(berth({"ls", "-q", "--label", "team=green"}).out, "");
    EXPECT_EQ(berth({"ls", "--state", "sleepy"}).code, 2);
}

TEST_F(Trouble, ANameThatLooksLikeAnOptionIsRefused)
{
    const auto ended = berth({"create", "--name=-x"});
    EXPECT_EQ(ended.code, 2);
    EXPECT_THAT(ended.err, HasSubstr("begin with '-'"));
}

TEST_F(Trouble, AnInterruptedConformanceRemovesWhatItMade)
{
    Started checks({.args = {"conformance", "--only", "endings", "--only", "files"}});
    ASSERT_TRUE(checks.wait_for("\n")) << "a first check is over";
    checks.signal(SIGINT);
    const auto ended = checks.finish();
    EXPECT_EQ(ended.code, 128 + SIGINT) << ended.err;
    for (const auto& entry : fs::directory_iterator(Place::here().state()))
        EXPECT_FALSE(entry.path().filename().string().starts_with("conformance-")) << entry.path();
}

} // namespace
} // namespace berth::test

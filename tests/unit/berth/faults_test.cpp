// Disks that are full or read-only, under everything that is kept. In a mount namespace of the test's own.

#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "berth/berth.hpp"
#include "support/tsan.hpp"

namespace berth {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class SmallDisk : public ::testing::Test {
protected:
    void SetUp() override
    {
        if (::geteuid() != 0)
            GTEST_SKIP() << "mounting a small disk needs root; run: sudo ./dev test -R SmallDisk";
        BERTH_NEEDS_ONE_THREAD();
        char path[] = "/tmp/berth-small-XXXXXX";
        disk_ = ::mkdtemp(&path[0]);
        ASSERT_EQ(::unshare(CLONE_NEWNS), 0);
        ASSERT_EQ(::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0);
        ASSERT_EQ(::mount("tmpfs", disk_.c_str(), "tmpfs", 0, "size=24m,mode=0700"), 0);
        data_ = disk_ + "/data";
    }
    void TearDown() override
    {
        if (disk_.empty()) return;
        if (auto last = Berth::open({.data = data_, .threads = 2}))
            for (const auto& record : *(*last)->store().list({.with_dead = true}))
                (void)(*last)->run((*last)->lifecycle().destroy(record.id()));
        ::umount2(disk_.c_str(), MNT_DETACH);
        std::filesystem::remove(disk_);
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
    static Result<std::string> shell(Berth& berth, const std::string& ref, const std::string& script)
    {
        ExecSpec exec;
        exec.argv = {"sh", "-c", script};
        exec.timeout = 20s;
        std::string output;
        RunStreams streams;
        streams.on_event = [&](const ExecEvent& event) { output += event.bytes; };
        BERTH_TRY(const auto outcome, berth.run(berth.exec(ref, std::move(exec), std::move(streams))));
        if (!outcome.status.success()) return fail(Code::Internal, "{}", to_string(outcome.status));
        return output;
    }
    void fill()
    {
        std::ofstream out(disk_ + "/filler", std::ios::binary);
        const std::string piece(4096, 'x');
        while (out.write(piece.data(), static_cast<std::streamsize>(piece.size())) && out.flush()) {
        }
    }
    void empty() { std::filesystem::remove(disk_ + "/filler"); }

    std::string disk_, data_;
};

TEST_F(SmallDisk, WhenItIsFullEverythingSaysSoAndNothingIsLostOrLeft)
{
    auto berth = open();
    ASSERT_TRUE(berth->run(berth->lifecycle().acquire(wish("first"))));
    ASSERT_EQ(*shell(*berth, "first", "echo kept > ~/note; cat ~/note"), "kept\n");
    fill();
    const auto refused = [](const auto& result, const char* what) {
        if (result) return; // what needs no room may well succeed
        EXPECT_TRUE(result.error().code == Code::Exhausted) << what << ": " << result.error().line();
    };
    refused(berth->run(berth->lifecycle().acquire(wish("second"))), "create");
    refused(shell(*berth, "first", "true"), "exec");
    refused(berth->run(berth->lifecycle().snapshot("first", {})), "snapshot");
    refused(berth->run(berth->lifecycle().fork("first", {})), "fork");
    refused(berth->run(berth->lifecycle().stop("first", 100ms)), "stop");
    empty();
    EXPECT_EQ(shell(*berth, "first", "cat ~/note").value_or("lost"), "kept\n");
    EXPECT_TRUE(berth->run(berth->lifecycle().acquire(wish("second"))));
    EXPECT_TRUE(berth->run(berth->lifecycle().destroy("first")));
    EXPECT_TRUE(berth->run(berth->lifecycle().destroy("second")));
    const auto collected = berth->run(berth->lifecycle().collect({.grace = 0s, .keep_last = 0}));
    ASSERT_TRUE(collected) << collected.error().line();
    for (const auto& action : collected->actions) EXPECT_EQ(action.failed, "") << action.object;
    for (const char* part : {"sandbox", "layer", "snapshot"}) {
        std::error_code missing;
        for (const auto& entry : std::filesystem::directory_iterator(data_ + "/" + part, missing)) {
            const auto name = entry.path().filename().string();
            EXPECT_TRUE(name.starts_with(".") || name.find("lock") != std::string::npos) << entry.path();
        }
    }
}

/// Whichever write is the first that finds no room.
TEST_F(SmallDisk, WithAnyAmountOfRoomEveryVerbIsDoneOrRefusedAndLosesNothing)
{
    auto berth = open();
    auto& lifecycle = berth->lifecycle();
    ASSERT_TRUE(berth->run(lifecycle.acquire(wish("first"))));
    ASSERT_EQ(*shell(*berth, "first", "echo kept > ~/note; cat ~/note"), "kept\n");
    const auto refused = [](const auto& result, const char* what, std::uintmax_t room) {
        if (!result)
            EXPECT_EQ(result.error().code, Code::Exhausted)
                << what << " with " << room << " bytes: " << result.error().line();
    };
    std::vector<std::uintmax_t> rooms;
    for (std::uintmax_t room = 0; room < 64 * 1024; room += 4096) rooms.push_back(room);
    for (std::uintmax_t room = 64 * 1024; room <= 1024 * 1024; room *= 2) rooms.push_back(room);
    for (const auto room : rooms) {
        fill();
        const auto filler = disk_ + "/filler";
        const auto size = std::filesystem::file_size(filler);
        std::filesystem::resize_file(filler, size - std::min(size, room));
        refused(berth->run(lifecycle.acquire(wish("second"))), "create", room);
        refused(shell(*berth, "first", "true"), "exec", room);
        refused(berth->run(lifecycle.snapshot("first", {})), "snapshot", room);
        refused(berth->run(lifecycle.fork("first", {})), "fork", room);
        refused(berth->run(lifecycle.stop("first", 100ms)), "stop", room);
        refused(berth->run(lifecycle.acquire(wish("first"))), "start", room);
        empty();
        ASSERT_EQ(shell(*berth, "first", "cat ~/note").value_or("lost"), "kept\n") << room;
        for (const auto& record : *berth->store().list({}))
            if (record.key != "first") EXPECT_TRUE(berth->run(lifecycle.destroy(record.id()))) << room;
        ASSERT_TRUE(berth->run(lifecycle.collect({.grace = 0s, .keep_last = 0})));
    }
    const auto scanned = berth->run((*berth->backend("local"))->scan());
    ASSERT_TRUE(scanned);
    EXPECT_EQ(scanned->size(), 1u) << "an instance that nobody has";
}

TEST_F(SmallDisk, ThatIsReadOnlyIsToldAtOnce)
{
    open();
    ASSERT_EQ(::mount(nullptr, disk_.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), 0);
    const auto refused = Berth::open({.data = data_, .threads = 2});
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error().line(), HasSubstr(data_));
    ASSERT_EQ(::mount(nullptr, disk_.c_str(), nullptr, MS_REMOUNT, "size=24m"), 0);
}

} // namespace
} // namespace berth

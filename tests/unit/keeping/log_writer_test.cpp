#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <span>

#include <gtest/gtest.h>

#include "keeping/exec_follower.hpp"
#include "keeping/exec_logs.hpp"
#include "keeping/log_writer.hpp"
#include "keeping/relayed_execs.hpp"

namespace berth::keeping {
namespace {

using Kind = ExecEvent::Kind;

class Log : public ::testing::Test {
protected:
    void SetUp() override
    {
        std::string pattern = "/tmp/berth-log-XXXXXX";
        path_ = ::mkdtemp(pattern.data());
        directory_.reset(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    }
    void TearDown() override { std::filesystem::remove_all(path_); }

    LogWriter begin(Bytes limit = 64_MiB, ExecLog::Streams streams = ExecLog::Streams::Separate)
    {
        return *LogWriter::begin(*ExecLog::create(directory_.get(), streams), limit);
    }
    std::vector<ExecEvent> all(std::uint64_t from = 0)
    {
        auto follower = *ExecFollower::read(*ExecLog::open(directory_.get()), from);
        std::vector<ExecEvent> out;
        for (;;) {
            const auto some = follower.next(std::chrono::steady_clock::now());
            EXPECT_TRUE(some) << some.error().line();
            if (!some || some->empty()) return out;
            out.insert(out.end(), some->begin(), some->end());
        }
    }
    /// As a machine leaves it that goes down.
    void tear(std::uint64_t at, const std::string& bytes) const
    {
        const UniqueFd index(::open((path_ + "/index").c_str(), O_WRONLY | O_CLOEXEC));
        ASSERT_EQ(::pwrite(index.get(), bytes.data(), bytes.size(), static_cast<off_t>(at)),
                  static_cast<ssize_t>(bytes.size()));
    }
    std::string path_;
    UniqueFd directory_;
};

TEST_F(Log, IsReadAsOneOfAKeeper)
{
    auto writer = begin();
    ASSERT_TRUE(writer.start(42));
    ASSERT_TRUE(writer.output(keeper::Kind::Out, "out"));
    ASSERT_TRUE(writer.output(keeper::Kind::Err, "err"));
    ASSERT_TRUE(writer.exit(7 << 8));
    ASSERT_TRUE(writer.close());
    const auto events = all();
    ASSERT_EQ(events.size(), 5u);
    EXPECT_EQ(events[0].kind, Kind::Start);
    EXPECT_EQ(events[1].bytes, "out");
    EXPECT_EQ(events[2].kind, Kind::Stderr);
    EXPECT_EQ(events[3].status.code(), 7);
    EXPECT_EQ(events[4].kind, Kind::Closed);
    EXPECT_TRUE(*ExecLog::open(directory_.get())->closed());
}

TEST_F(Log, IsReadWithoutWaitingForTheDiskWhereThatCanBeTold)
{
    auto writer = begin();
    ASSERT_TRUE(writer.start(42));
    ASSERT_TRUE(writer.output(keeper::Kind::Out, std::string(300'000, 'x')));
    ASSERT_TRUE(writer.exit(0));
    ASSERT_TRUE(writer.close());
    const auto expected = all();
    auto follower = *ExecFollower::read(*ExecLog::open(directory_.get()), 0);
    std::vector<ExecEvent> events;
    while (!follower.ended()) {
        auto some = follower.next_at_once();
        // A file system that cannot tell, or a page that was taken away meanwhile.
        if (!some) some = follower.next(std::chrono::steady_clock::now());
        ASSERT_TRUE(*some) << some->error().line();
        ASSERT_FALSE((*some)->empty());
        events.insert(events.end(), (*some)->begin(), (*some)->end());
    }
    ASSERT_EQ(events.size(), expected.size());
    for (std::size_t i = 0; i < events.size(); ++i) {
        EXPECT_EQ(events[i].kind, expected[i].kind) << i;
        EXPECT_EQ(events[i].sequence, expected[i].sequence) << i;
        EXPECT_TRUE(events[i].bytes == expected[i].bytes) << i;
    }
}

TEST_F(Log, TheOldestThatAreOverGoAndThoseThatRunStay)
{
    ASSERT_EQ(::mkdirat(directory_.get(), "exec", 0700), 0);
    std::vector<std::string> names;
    for (int i = 0; i < 6; ++i) {
        names.push_back(fmt::format("exec_0000000000000000000000000{}", i));
        const auto place = path_ + "/exec/" + names.back();
        ASSERT_EQ(::mkdir(place.c_str(), 0700), 0);
        const UniqueFd own(::open(place.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        auto writer = *LogWriter::begin(*ExecLog::create(own.get(), ExecLog::Streams::Separate), 1_MiB);
        ASSERT_TRUE(writer.start(42));
        if (i == 1) continue; // still at work
        ASSERT_TRUE(writer.exit(0));
        ASSERT_TRUE(writer.close());
    }
    ASSERT_TRUE(trim_logs(directory_.get(), 6));
    EXPECT_TRUE(open_log(directory_.get(), names[0]));
    ASSERT_TRUE(trim_logs(directory_.get(), 2));
    std::vector<bool> there;
    for (const auto& name : names) there.push_back(open_log(directory_.get(), name).has_value());
    EXPECT_EQ(there, (std::vector<bool>{false, true, false, false, true, true}));
    ASSERT_TRUE(trim_logs(directory_.get(), 2));
    EXPECT_TRUE(open_log(directory_.get(), names[1]));
}

TEST_F(Log, OfCommandsElsewhereTheOldestGoAsWell)
{
    ASSERT_EQ(::mkdirat(directory_.get(), "exec", 0700), 0);
    constexpr int count = 1011;
    std::string last;
    for (int i = 0; i < count; ++i) {
        last = fmt::format("exec_{:026}", i);
        const auto place = path_ + "/exec/" + last;
        ASSERT_EQ(::mkdir(place.c_str(), 0700), 0);
        const UniqueFd own(::open(place.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        auto writer = *LogWriter::begin(*ExecLog::create(own.get(), ExecLog::Streams::Separate), 1_MiB);
        ASSERT_TRUE(writer.start(42));
        ASSERT_TRUE(writer.exit(0));
        ASSERT_TRUE(writer.close());
    }
    BlockingPool pool(1);
    RelayedExecs execs(
        pool,
        [&](const std::string&) -> Result<UniqueFd> {
            return UniqueFd(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        },
        [](const RelayedWish&) -> Result<RelayedExecs::ExecPtr> {
            return fail(Code::Internal, "all of them are over");
        });
    const auto settled = execs.settle("one", last);
    ASSERT_TRUE(settled) << settled.error().line();
    EXPECT_EQ(list_logs(directory_.get(), LogKeeper::Lives)->size(), kKeptLogs);
    EXPECT_TRUE(open_log(directory_.get(), last));
}

TEST_F(Log, IsContinuedByAnotherWriterAndTellsTheGap)
{
    {
        auto writer = begin();
        ASSERT_TRUE(writer.start(42));
        ASSERT_TRUE(writer.output(keeper::Kind::Out, "before "));
    }
    auto again = LogWriter::go_on(*ExecLog::open(directory_.get(), ExecLog::Access::Repair));
    ASSERT_TRUE(again);
    EXPECT_EQ(again->pid(), 42);
    ASSERT_TRUE(again->gap());
    ASSERT_TRUE(again->output(keeper::Kind::Out, "after"));
    ASSERT_TRUE(again->exit(keeper::kStatusUnknown));
    ASSERT_TRUE(again->exit(0)); // an end is told once
    ASSERT_TRUE(again->close());
    const auto events = all();
    ASSERT_EQ(events.size(), 6u);
    EXPECT_EQ(events[2].kind, Kind::Gap);
    EXPECT_EQ(events[2].gap_bytes, 0u);
    EXPECT_EQ(events[3].bytes, "after");
    EXPECT_FALSE(events[4].status.known());
}

TEST_F(Log, KeepsHeadAndTailAndCountsTheRest)
{
    auto writer = begin(256_KiB);
    ASSERT_TRUE(writer.start(1));
    std::uint64_t whole = 0;
    for (int i = 0; i < 100; ++i) {
        const std::string piece(32 * 1024, static_cast<char>('a' + i % 26));
        ASSERT_TRUE(writer.output(keeper::Kind::Out, piece));
        whole += piece.size();
    }
    ASSERT_TRUE(writer.exit(0));
    ASSERT_TRUE(writer.close());
    std::uint64_t kept = 0, lost = 0;
    for (const auto& event : all()) {
        kept += event.bytes.size();
        lost += event.gap_bytes;
    }
    EXPECT_EQ(kept + lost, whole);
    EXPECT_GT(lost, 0u);
    EXPECT_LE(kept, 512u << 10);
}

struct Amount {
    std::uint64_t kept = 0;
    std::uint64_t lost = 0;
    explicit Amount(std::span<const ExecEvent> events)
    {
        for (const auto& event : events) {
            kept += event.bytes.size();
            lost += event.gap_bytes;
        }
    }
    bool operator==(const Amount&) const = default;
};

TEST_F(Log, IsGoneOnWithBehindEveryEventBesideAGapToo)
{
    auto writer = begin(64_KiB);
    ASSERT_TRUE(writer.start(1));
    for (int i = 0; i < 40; ++i) {
        ASSERT_TRUE(writer.output(keeper::Kind::Out, std::string(9000, 'o')));
        ASSERT_TRUE(writer.output(keeper::Kind::Err, std::string(7000, 'e')));
    }
    ASSERT_TRUE(writer.exit(0));
    ASSERT_TRUE(writer.close());
    const auto events = all();
    EXPECT_GT(Amount(events).lost, 0u);
    for (std::size_t i = 1; i < events.size(); ++i) {
        EXPECT_GT(events[i].sequence, events[i - 1].sequence);
        EXPECT_EQ(Amount(all(events[i - 1].sequence + 1)), Amount(std::span(events).subspan(i))) << i;
    }
}

TEST_F(Log, OfOneLargePieceHasItsBeginningAndItsEnd)
{
    auto writer = begin(64_KiB);
    ASSERT_TRUE(writer.start(1));
    const std::string piece = "first" + std::string(200'000, '.') + "last";
    ASSERT_TRUE(writer.output(keeper::Kind::Out, piece));
    const auto events = all();
    ASSERT_EQ(events.size(), 4u);
    EXPECT_EQ(events[1].bytes.size(), 32u << 10);
    EXPECT_TRUE(events[1].bytes.starts_with("first"));
    EXPECT_EQ(events[2].kind, Kind::Gap);
    EXPECT_GE(events[3].bytes.size(), 28u << 10);
    EXPECT_TRUE(events[3].bytes.ends_with("last"));
    EXPECT_EQ(Amount(events).kept + Amount(events).lost, piece.size());
}

TEST_F(Log, CountsARecordThatTheGapRunsThroughAsGone)
{
    auto writer = begin();
    ASSERT_TRUE(writer.start(1));
    for (const char letter : {'a', 'b', 'c', 'd', 'e'})
        ASSERT_TRUE(writer.output(keeper::Kind::Out, std::string(10, letter)));
    const auto put = [&](std::size_t field, std::uint64_t value) {
        const UniqueFd index(::open((path_ + "/index").c_str(), O_WRONLY | O_CLOEXEC));
        ASSERT_EQ(::pwrite(index.get(), &value, sizeof value, static_cast<off_t>(field)), 8);
    };
    put(offsetof(keeper::IndexHead, gap_start), 15);
    put(offsetof(keeper::IndexHead, gap_end), 35);
    const auto events = all();
    ASSERT_EQ(events.size(), 4u);
    EXPECT_EQ(events[1].bytes, std::string(10, 'a'));
    EXPECT_EQ(events[1].sequence, 1u);
    EXPECT_EQ(events[2].gap_bytes, 30u);
    EXPECT_EQ(events[2].sequence, 4u);
    EXPECT_EQ(events[3].bytes, std::string(10, 'e'));
    EXPECT_EQ(events[3].sequence, 5u);
}

TEST_F(Log, OfAnUnknownGapIsRepaired)
{
    auto writer = begin();
    ASSERT_TRUE(writer.start(1));
    ASSERT_TRUE(writer.gap());
    ASSERT_TRUE(writer.output(keeper::Kind::Out, "x"));
    ASSERT_TRUE(ExecLog::open(directory_.get(), ExecLog::Access::Repair)->repair(system_clock().now()));
    const auto events = all();
    ASSERT_EQ(events.size(), 5u);
    EXPECT_EQ(events[2].bytes, "x");
    EXPECT_EQ(events[4].kind, Kind::Closed);
}

TEST_F(Log, ThatIsTornIsCutOffAndTellsWhatIsLeftOfIt)
{
    auto writer = begin();
    ASSERT_TRUE(writer.start(1));
    ASSERT_TRUE(writer.output(keeper::Kind::Out, "abc"));
    ASSERT_TRUE(writer.output(keeper::Kind::Out, "def"));
    ASSERT_TRUE(writer.exit(0));
    tear(keeper::record_at(2), std::string(sizeof(keeper::Record), '\xff'));
    tear(keeper::record_at(3), std::string(2 * sizeof(keeper::Record), '\0'));
    auto log = *ExecLog::open(directory_.get(), ExecLog::Access::Repair);
    const auto repaired = log.repair(system_clock().now());
    ASSERT_TRUE(repaired) << repaired.error().line();
    EXPECT_TRUE(log.closed().value_or(false));
    const auto events = all();
    ASSERT_EQ(events.size(), 4u);
    EXPECT_EQ(events[1].bytes, "abcdef") << "they are in the file";
    EXPECT_FALSE(events[2].status.known()) << "nobody knows how it ended";
    EXPECT_EQ(events[3].kind, Kind::Closed);
}

TEST_F(Log, WithATornHeadIsAGap)
{
    auto writer = begin();
    ASSERT_TRUE(writer.start(1));
    ASSERT_TRUE(writer.output(keeper::Kind::Out, "abc"));
    tear(0, std::string(sizeof(keeper::IndexHead), '\0'));
    auto log = *ExecLog::open(directory_.get(), ExecLog::Access::Repair);
    const auto repaired = log.repair(system_clock().now());
    ASSERT_TRUE(repaired) << repaired.error().line();
    ASSERT_TRUE(log.repair(system_clock().now())) << "which changes nothing";
    const auto events = all();
    ASSERT_EQ(events.size(), 4u);
    EXPECT_EQ(events[1].kind, Kind::Gap);
    EXPECT_FALSE(events[2].status.known());
    EXPECT_EQ(events[3].kind, Kind::Closed);
}

TEST_F(Log, OfATerminalHasOneStream)
{
    auto writer = begin(64_MiB, ExecLog::Streams::Terminal);
    ASSERT_TRUE(writer.start(1));
    EXPECT_FALSE(writer.output(keeper::Kind::Err, "x"));
    EXPECT_TRUE(writer.output(keeper::Kind::Pty, "x"));
}

} // namespace
} // namespace berth::keeping

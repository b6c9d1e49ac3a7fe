#include <cstring>

#include "keeper_process.hpp"

namespace berth::local::test {
namespace {

using keeper::Kind;
using keeper::Record;

constexpr WallTime kNow{std::chrono::seconds(1'700'000'000)};

Record record(std::uint64_t sequence, Kind kind, std::uint64_t offset, std::uint32_t length, int status = 0)
{
    return {offset, 1, length, static_cast<std::uint32_t>(sequence), kind, 0, status};
}

void write_head(const ExecLog& log, std::uint64_t gap_start = 0, std::uint64_t gap_end = 0)
{
    keeper::IndexHead head{};
    head.magic = keeper::kIndexMagic;
    head.limit = 1 << 20;
    head.gap_start[0] = gap_start;
    head.gap_end[0] = gap_end;
    ASSERT_EQ(::pwrite(log.index(), &head, sizeof head, 0), static_cast<ssize_t>(sizeof head));
}

void write_record(const ExecLog& log, std::uint64_t at, const Record& r)
{
    ASSERT_EQ(::pwrite(log.index(), &r, sizeof r, static_cast<off_t>(keeper::record_at(at))),
              static_cast<ssize_t>(sizeof r));
}

void write_bytes(int fd, std::string_view bytes, off_t at = 0)
{
    ASSERT_EQ(::pwrite(fd, bytes.data(), bytes.size(), at), static_cast<ssize_t>(bytes.size()));
}

Ran read_finished(int directory, std::uint64_t from = 0)
{
    ExecFollower follower = must(ExecFollower::read(must(ExecLog::open(directory)), from));
    return read_all(follower);
}

TEST(ExecLogFiles, AreMadeOnceAndOnlyWhatTheStreamsNeed)
{
    TempDir dir;
    const ExecLog made = must(ExecLog::create(dir.fd(), ExecLog::Streams::Terminal));
    EXPECT_TRUE(made.terminal());
    EXPECT_NE(::faccessat(dir.fd(), "err", F_OK, 0), 0);
    EXPECT_EQ(ExecLog::create(dir.fd(), ExecLog::Streams::Terminal).error().code, Code::Conflict);
    EXPECT_EQ(must(ExecLog::open(dir.fd())).head().error().code, Code::NotFound);
}

TEST(ExecLogRepair, TellsBytesWithoutARecordThenUnknownThenClosed)
{
    TempDir dir;
    ExecLog log = must(ExecLog::create(dir.fd(), ExecLog::Streams::Separate));
    write_head(log);
    write_record(log, 0, record(0, Kind::Start, 0, 0, 42));
    write_record(log, 1, record(1, Kind::Out, 0, 3));
    write_bytes(log.out(), "abcdef");
    write_bytes(log.err(), "xy");
    must(log.repair(kNow));
    must(log.repair(kNow)); // changes nothing
    must(log.sync());
    const Ran ran = read_finished(dir.fd());
    EXPECT_EQ(ran.out, "abcdef");
    EXPECT_EQ(ran.err, "xy");
    EXPECT_FALSE(ran.status.known());
    EXPECT_EQ(ran.events.back().sequence, 5u);
}

TEST(ExecLogRepair, KeepsAnExitThatWasSeen)
{
    TempDir dir;
    ExecLog log = must(ExecLog::create(dir.fd(), ExecLog::Streams::Separate));
    write_head(log);
    write_record(log, 0, record(0, Kind::Start, 0, 0, 42));
    write_record(log, 1, record(1, Kind::Exit, 0, 0, 7 << 8));
    must(log.repair(kNow));
    const Ran ran = read_finished(dir.fd());
    EXPECT_EQ(ran.status.code(), 7);
    EXPECT_EQ(ran.events.back().kind, ExecEvent::Kind::Closed);
}

TEST(ExecLogRepair, GoesOnFromATornRecordAndFromAnEmptyIndex)
{
    TempDir dir;
    ExecLog log = must(ExecLog::create(dir.fd(), ExecLog::Streams::Separate));
    must(log.repair(kNow));
    EXPECT_EQ(read_finished(dir.fd()).events.size(), 3u);

    TempDir other;
    ExecLog torn = must(ExecLog::create(other.fd(), ExecLog::Streams::Separate));
    write_head(torn);
    write_record(torn, 0, record(0, Kind::Start, 0, 0, 42));
    write_bytes(torn.index(), "half a record", static_cast<off_t>(keeper::record_at(1)));
    must(torn.repair(kNow));
    EXPECT_FALSE(read_finished(other.fd()).status.known());
}

TEST(ExecLogRecords, ThatNoKeeperWritesAreNamed)
{
    const Record bad[] = {
        record(7, Kind::Out, 0, 1),                               // another number
        record(0, static_cast<Kind>(9), 0, 1),                    // no such kind
        record(0, Kind::Out, 0, 0),                               // nothing
        record(0, Kind::Out, 0, keeper::kMaxRecordBytes + 1),     // more than one read
        record(0, Kind::Out, ~std::uint64_t{0}, 1),               // beyond every file
        record(0, Kind::Exit, 0, 5),                              // an exit has no bytes
        record(0, Kind::Gap, 0, 5, static_cast<int>(Kind::Exit)), // a gap of no stream
    };
    for (const Record& r : bad) {
        const std::string bytes(reinterpret_cast<const char*>(&r), sizeof r);
        const auto parsed = parse_records(bytes, 0);
        ASSERT_FALSE(parsed);
        EXPECT_NE(parsed.error().message.find("record 0"), std::string::npos);
    }
}

TEST(ExecFollowerGap, TakesARecordThatItRunsThroughAsAWhole)
{
    TempDir dir;
    ExecLog log = must(ExecLog::create(dir.fd(), ExecLog::Streams::Separate));
    write_head(log, 4, 8);
    write_bytes(log.out(), std::string("0123\0\0\0\089ab", 12));
    write_record(log, 0, record(0, Kind::Out, 0, 2));
    write_record(log, 1, record(1, Kind::Out, 2, 8)); // the gap runs through it
    write_record(log, 2, record(2, Kind::Out, 10, 2));
    write_record(log, 3, record(3, Kind::Closed, 0, 0));
    const Ran ran = read_finished(dir.fd());
    EXPECT_EQ(ran.out, "01ab");
    EXPECT_EQ(ran.lost, 8u);
    ASSERT_EQ(ran.events.size(), 4u);
    EXPECT_EQ(ran.events[1].kind, ExecEvent::Kind::Gap);
    for (std::size_t i = 0; i < ran.events.size(); ++i) EXPECT_EQ(ran.events[i].sequence, i);
}

TEST(ExecFollowerGap, IsOneEventForManyRecordsAndWhatTheFileLost)
{
    TempDir dir;
    ExecLog log = must(ExecLog::create(dir.fd(), ExecLog::Streams::Separate));
    write_head(log, 0, 6);
    write_record(log, 0, record(0, Kind::Out, 0, 3));
    write_record(log, 1, record(1, Kind::Out, 3, 3));
    write_record(log, 2, record(2, Kind::Gap, 6, 4, static_cast<int>(Kind::Out)));
    write_record(log, 3, record(3, Kind::Out, 10, 5)); // the file ends before: a crash of the machine
    write_record(log, 4, record(4, Kind::Closed, 0, 0));
    const Ran ran = read_finished(dir.fd());
    EXPECT_EQ(ran.out, "");
    EXPECT_EQ(ran.lost, 15u);
    ASSERT_EQ(ran.events.size(), 2u);
    EXPECT_EQ(ran.events[0].sequence, 3u);
}

TEST(ExecFollower, RefusesRecordsThatGoBack)
{
    TempDir dir;
    ExecLog log = must(ExecLog::create(dir.fd(), ExecLog::Streams::Separate));
    write_head(log);
    write_bytes(log.out(), "abcdef");
    write_record(log, 0, record(0, Kind::Out, 0, 4));
    write_record(log, 1, record(1, Kind::Out, 2, 4));
    ExecFollower follower = must(ExecFollower::read(must(ExecLog::open(dir.fd())), 0));
    const auto events = follower.next(std::chrono::steady_clock::now() + 1s);
    ASSERT_FALSE(events);
    EXPECT_NE(events.error().message.find("record 1"), std::string::npos);
}

TEST(ExecFollower, ReturnsNothingWhenTheTimeIsOver)
{
    TempDir dir;
    ExecLog log = must(ExecLog::create(dir.fd(), ExecLog::Streams::Separate));
    ExecFollower follower = must(ExecFollower::read(must(ExecLog::open(dir.fd())), 0));
    EXPECT_TRUE(must(follower.next(std::chrono::steady_clock::now() + 30ms)).empty());
    EXPECT_FALSE(follower.ended());
}

} // namespace
} // namespace berth::local::test

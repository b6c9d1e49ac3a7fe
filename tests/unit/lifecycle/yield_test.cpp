#include "lifecycle/yield.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lifecycle/head_tail.hpp"
#include "support/fake_backend.hpp"
#include "support/run_task.hpp"

namespace berth {
namespace {

using namespace std::chrono_literals;
using Kind = ExecEvent::Kind;

ExecEvent event(std::uint64_t sequence, Kind kind, std::string bytes = {})
{
    ExecEvent out{.sequence = sequence, .kind = kind};
    out.bytes = std::move(bytes);
    if (kind == Kind::Exit) out.status = ExitStatus::from_wait(7 << 8);
    return out;
}

Yielded collect(FakeBackend& backend, std::chrono::nanoseconds time, std::size_t tokens = 1000)
{
    auto answer =
        run_task(collect_output(backend, {.sandbox = "sbx", .native = "n"}, "exec_1", 0, time, tokens));
    EXPECT_TRUE(answer) << answer.error().line();
    return answer ? *std::move(answer) : Yielded{};
}

TEST(YieldTime, HasADefaultForEachReason)
{
    EXPECT_EQ(yield_time(YieldFor::Start, {}), 10s);
    EXPECT_EQ(yield_time(YieldFor::Write, {}), 250ms);
    EXPECT_EQ(yield_time(YieldFor::Poll, {}), 5s);
}

TEST(YieldTime, IsKeptInBounds)
{
    EXPECT_EQ(yield_time(YieldFor::Start, 1ms), 250ms);
    EXPECT_EQ(yield_time(YieldFor::Start, 1h), 30s);
    EXPECT_EQ(yield_time(YieldFor::Write, 3s), 3s);
    EXPECT_EQ(yield_time(YieldFor::Poll, 1s), 5s);
    EXPECT_EQ(yield_time(YieldFor::Poll, 8s), 8s);
}

TEST(Yield, ReturnsEarlyWhenAllIsOver)
{
    FakeBackend backend;
    backend.events = {{event(0, Kind::Start), event(1, Kind::Stdout, "a")},
                      {event(2, Kind::Exit)},
                      {event(3, Kind::Stderr, "b"), event(4, Kind::Closed)}};
    const auto answer = collect(backend, 30s);
    EXPECT_EQ(answer.output, "ab");
    ASSERT_TRUE(answer.status);
    EXPECT_EQ(answer.status->code(), 7);
    EXPECT_EQ(answer.next, 5u);
    EXPECT_LT(answer.waited, 10s);
    EXPECT_FALSE(answer.original_tokens);
}

TEST(Yield, OfOneThatEndedBeforeWaitsForNothingNew)
{
    FakeBackend backend;
    backend.events = {{event(7, Kind::Stdout, "rest")}};
    const auto answer = run_task(collect_output(backend, {.sandbox = "sbx", .native = "n"}, "exec_1", 7, 30s,
                                                1000, ExitStatus::from_wait(7 << 8)));
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->output, "rest");
    EXPECT_EQ(answer->status->code(), 7);
    EXPECT_EQ(answer->next, 8u);
    EXPECT_LT(answer->waited, 10s);
}

TEST(Yield, DoesNotWaitForStreamsThatADaemonHolds)
{
    FakeBackend backend;
    backend.events = {{event(0, Kind::Stdout, "a"), event(1, Kind::Exit)}};
    const auto answer = collect(backend, 30s);
    EXPECT_TRUE(answer.status);
    EXPECT_LT(answer.waited, 10s);
}

TEST(Yield, LeavesWhatRunsOn)
{
    FakeBackend backend;
    backend.events = {{event(0, Kind::Start)}, {event(3, Kind::Stdout, "so far")}};
    const auto answer = collect(backend, 250ms);
    EXPECT_FALSE(answer.status);
    EXPECT_EQ(answer.output, "so far");
    EXPECT_EQ(answer.next, 4u);
    EXPECT_GE(answer.waited, 250ms);
    EXPECT_THAT(backend.asked, ::testing::Not(::testing::Contains("kill")));
}

TEST(Yield, TellsHowMuchTheLogHasLost)
{
    FakeBackend backend;
    ExecEvent gap = event(1, Kind::Gap);
    gap.gap_bytes = 99;
    backend.events = {{event(0, Kind::Stdout, "a"), gap, event(2, Kind::Stdout, "b"), event(3, Kind::Exit),
                       event(4, Kind::Closed)}};
    const auto answer = collect(backend, 1s);
    EXPECT_EQ(answer.missing, 99u);
    EXPECT_EQ(answer.output, "a\n[berth: 99 bytes of output are missing here]\nb");
}

TEST(Yield, TellsWhereNobodyKnowsHowMuchIsMissing)
{
    FakeBackend backend;
    backend.events = {{event(0, Kind::Stdout, "a"), event(1, Kind::Gap), event(2, Kind::Stdout, "b"),
                       event(3, Kind::Exit), event(4, Kind::Closed)}};
    EXPECT_EQ(collect(backend, 1s).output, "a\n[berth: output may be missing here]\nb");
}

TEST(Yield, CutsAtTheTokensAndTellsHowManyThereWere)
{
    FakeBackend backend;
    backend.events = {
        {event(0, Kind::Stdout, std::string(1000, 'x')), event(1, Kind::Exit), event(2, Kind::Closed)}};
    const auto answer = collect(backend, 1s, 10);
    EXPECT_EQ(answer.original_tokens, 250u);
    EXPECT_EQ(answer.output, "1 lines in all\n" + std::string(20, 'x') + "\n… 960 bytes left out …\n" +
                                 std::string(20, 'x'));
}

TEST(HeadTail, KeepsWhatFits)
{
    HeadTail text(8);
    text.add("1234");
    text.add("5678");
    EXPECT_FALSE(text.cut());
    EXPECT_EQ(text.text(), "12345678");
}

TEST(HeadTail, IsTheSameInWhateverPiecesItCame)
{
    std::string all;
    for (int i = 0; i < 1000; ++i) all += std::to_string(i) + "\n";
    HeadTail whole(64);
    whole.add(all);
    for (const std::size_t piece : {1u, 3u, 31u, 32u, 33u, 64u, 65u, 500u}) {
        HeadTail pieces(64);
        for (std::size_t at = 0; at < all.size(); at += piece)
            pieces.add(std::string_view(all).substr(at, piece));
        EXPECT_EQ(pieces.text(), whole.text()) << piece;
        EXPECT_EQ(pieces.lines(), 1000u);
    }
    EXPECT_THAT(whole.text(), ::testing::StartsWith("1000 lines in all\n0\n1\n2\n"));
    EXPECT_THAT(whole.text(), ::testing::EndsWith("\n998\n999\n"));
}

TEST(HeadTail, CutsNoCharacterInTwo)
{
    std::string all;
    for (int i = 0; i < 100; ++i) all += "äöü€😀";
    for (std::size_t room = 8; room < 40; ++room) {
        HeadTail text(room);
        text.add(all);
        const std::string cut = text.text();
        EXPECT_EQ(cut.find("\xef\xbf\xbd"), std::string::npos);
        // Every byte belongs to a whole character.
        for (std::size_t at = 0; at < cut.size();) {
            const auto c = static_cast<unsigned char>(cut[at]);
            const std::size_t size = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
            ASSERT_NE(c & 0xc0, 0x80) << room;
            for (std::size_t i = 1; i < size; ++i)
                ASSERT_EQ(static_cast<unsigned char>(cut.at(at + i)) & 0xc0, 0x80);
            at += size;
        }
    }
}

TEST(HeadTail, LeavesBytesThatAreNoTextAsTheyAre)
{
    const std::string bytes(100, '\x80');
    HeadTail text(20);
    text.add(bytes);
    EXPECT_THAT(text.text(), ::testing::HasSubstr("80 bytes left out"));
}

} // namespace
} // namespace berth

#include "server/http/pace.hpp"

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>

#include "server/http/exchange.hpp"

namespace berth::http {
namespace {

using namespace std::chrono_literals;

/// How long a client holds a body of `pieces` pieces of `bytes`, one each `pause`, before it is too late.
std::chrono::nanoseconds held(Pace pace, std::size_t bytes, std::chrono::nanoseconds pause,
                              std::size_t pieces)
{
    SteadyTime now{};
    for (std::size_t i = 0; i < pieces; ++i) {
        const auto until = pace.until(now);
        if (now + pause > until) return until - SteadyTime{};
        now += pause;
        pace.came(bytes, pause);
    }
    return std::chrono::nanoseconds::max();
}

TEST(Pace, AByteAMinuteIsOverInMinutes)
{
    EXPECT_EQ(held({}, 1, 60s, 100'000), Pace::kPatience);
    EXPECT_EQ(held({}, 1, 1s, 100'000), Pace::kPatience);
}

TEST(Pace, WhoeverSendsAllTheTimeIsNeverLate)
{
    EXPECT_EQ(held({}, 64 << 10, 1s, 100'000), std::chrono::nanoseconds::max());
    EXPECT_EQ(held({}, 1200, 1s, 1'000'000), std::chrono::nanoseconds::max()) << "a gigabyte, slowly";
    EXPECT_EQ(held({}, 1 << 20, 299s, 1000), std::chrono::nanoseconds::max()) << "with long pauses";
}

TEST(Pace, APieceIsLateHoweverMuchCameBefore)
{
    Pace pace;
    pace.came(std::size_t{1} << 30, 1s);
    EXPECT_EQ(pace.until(SteadyTime{}) - SteadyTime{}, Pace::kPatience);
}

TEST(Pace, AConversationHasNoEndOfItsOwn)
{
    Pace pace;
    pace.free();
    EXPECT_EQ(held(pace, 1, 60s, 100'000), std::chrono::nanoseconds::max());
}

/// A client that sends one byte of its body at each read, and remembers how long it had for it.
class Slow final : public Channel {
public:
    std::vector<std::chrono::nanoseconds> had;

    Task<Result<std::size_t>> read_some(std::span<char> into, SteadyTime until) override
    {
        had.push_back(until - system_clock().steady());
        const auto sent = system_clock().steady() + 5ms;
        while (system_clock().steady() < sent) {
        }
        into[0] = 'x';
        co_return std::size_t{1};
    }
    Task<Status> write(std::string_view, SteadyTime) override { co_return Status{}; }
    Task<void> gone() override { co_return; }
    void end_writing() noexcept override {}
    void close() noexcept override {}
    void reset() noexcept override {}
    Task<Result<std::size_t>> read_behind(std::string&, SteadyTime) override { co_return std::size_t{0}; }
    Task<Status> write_parts(std::span<const std::string_view>, SteadyTime) override { co_return Status{}; }
};

TEST(Pace, IsThatOfARequestsBody)
{
    for (const bool trickles : {false, true}) {
        Slow channel;
        MessageParser parser(MessageParser::Kind::Request);
        ASSERT_TRUE(parser.feed("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n"));
        std::string buffer;
        Exchange exchange(channel, parser, buffer, parser.take_head());
        if (trickles) exchange.let_trickle();
        boost::asio::io_context loop;
        std::string body;
        boost::asio::co_spawn(
            loop, [&]() -> Task<void> { body = (co_await exchange.body(100)).value_or("none"); },
            boost::asio::detached);
        loop.run();
        EXPECT_EQ(body, "xxxxxxxxxx");
        ASSERT_EQ(channel.had.size(), 10u);
        const auto lost = channel.had.front() - channel.had.back();
        if (trickles)
            EXPECT_LT(lost, 9 * 5ms);
        else
            EXPECT_GE(lost, 9 * 5ms) << "what was waited is not had again";
    }
}

} // namespace
} // namespace berth::http

#include "server/codex/session.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <gtest/gtest.h>

namespace berth::codex {
namespace {

namespace asio = boost::asio;

class Nobody final : public Listener {
public:
    void notify(std::string_view, json::Object) override {}
    [[nodiscard]] std::size_t unsent() const noexcept override { return 0; }
    void probe() override {}
};

class SessionAlone : public ::testing::Test {
protected:
    SessionAlone() { session_->detach(); }

    void tell(std::size_t pieces, const std::string& chunk)
    {
        for (std::size_t i = 0; i < pieces; ++i) {
            json::Object params;
            params["chunk"] = chunk;
            session_->tell("process/output", std::move(params));
        }
    }
    void ask_for_room()
    {
        asio::co_spawn(loop_, session_->room(), [this](const std::exception_ptr&) { room_ = true; });
        loop_.restart();
        loop_.poll();
    }

    asio::io_context loop_;
    std::shared_ptr<Session> session_ = std::make_shared<Session>("s", "t", nullptr, loop_.get_executor());
    bool room_ = false;
};

TEST_F(SessionAlone, ReadsOnWhileThereIsLittleToTell)
{
    tell(1000, "eA==");
    ask_for_room();
    EXPECT_TRUE(room_);
}

TEST_F(SessionAlone, WaitsOnceThereIsAMebibyteUntilSomebodyComes)
{
    tell(129, std::string(8192, 'A'));
    ask_for_room();
    EXPECT_FALSE(room_);
    Nobody back;
    session_->attach(back);
    loop_.poll();
    EXPECT_TRUE(room_);
}

/// A process keeps 50000 pieces: a client that comes back must find each that it was not told.
TEST_F(SessionAlone, WaitsAlsoForManySmallPieces)
{
    tell(5000, "eA==");
    ask_for_room();
    EXPECT_FALSE(room_);
    Nobody back;
    session_->attach(back);
    loop_.poll();
}

} // namespace
} // namespace berth::codex

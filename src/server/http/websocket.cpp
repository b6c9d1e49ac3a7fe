// The frames are Beast's. It wants a stream of its own kind, so a channel of ours is dressed as one.
#include "server/http/websocket.hpp"

#include <array>
#include <span>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/websocket.hpp>

namespace berth::http {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using boost::system::error_code;
using namespace std::chrono_literals;

constexpr auto as_value = asio::as_tuple(asio::use_awaitable);
constexpr auto kWritePatience = 60s; // a peer that does not read

error_code broken() { return asio::error::make_error_code(asio::error::connection_reset); }

/// A channel as Beast wants a stream: what a coroutine does, told to a handler. Shared with the operations
/// under way, which the channel's end completes.
class ChannelStream {
public:
    using executor_type = asio::any_io_executor;

    ChannelStream(asio::any_io_executor loop, Channel& channel, std::string early)
        : loop_(std::move(loop)), channel_(&channel), early_(std::make_shared<std::string>(std::move(early)))
    {
    }

    executor_type get_executor() noexcept { return loop_; }
    [[nodiscard]] bool busy() const noexcept { return *under_way_ > 0; }
    void close() noexcept { channel_->close(); }

    template <class Buffers, class Token> auto async_read_some(const Buffers& buffers, Token&& token)
    {
        const auto into = first_of(buffers);
        return asio::async_initiate<Token, void(error_code, std::size_t)>(
            [this, into](auto handler) { begin(read(channel_, early_, into), std::move(handler)); }, token);
    }

    template <class Buffers, class Token> auto async_write_some(const Buffers& buffers, Token&& token)
    {
        // A frame's head and its bytes go together: two messages would wake the client twice.
        Parts parts;
        for (auto it = asio::buffer_sequence_begin(buffers);
             it != asio::buffer_sequence_end(buffers) && parts.count < parts.all.size(); ++it)
            if (const asio::const_buffer one(*it); one.size() > 0)
                parts.all.at(parts.count++) = {static_cast<const char*>(one.data()), one.size()};
        return asio::async_initiate<Token, void(error_code, std::size_t)>(
            [this, parts](auto handler) { begin(write(channel_, parts), std::move(handler)); }, token);
    }

private:
    using Outcome = std::pair<error_code, std::size_t>;
    struct Parts {
        std::array<std::string_view, 3> all{};
        std::size_t count = 0;
    };

    template <class Buffers> static asio::mutable_buffer first_of(const Buffers& buffers)
    {
        for (auto it = asio::buffer_sequence_begin(buffers); it != asio::buffer_sequence_end(buffers); ++it)
            if (asio::mutable_buffer one(*it); one.size() > 0) return one;
        return {};
    }

    static Task<Outcome> read(Channel* channel, std::shared_ptr<std::string> early, asio::mutable_buffer into)
    {
        if (into.size() == 0) co_return Outcome{};
        if (!early->empty()) {
            const std::size_t n = asio::buffer_copy(into, asio::buffer(*early));
            early->erase(0, n);
            co_return Outcome{{}, n};
        }
        const std::span<char> place(static_cast<char*>(into.data()), into.size());
        const auto n = co_await channel->read_some(place, SteadyTime::max());
        if (!n) co_return Outcome{broken(), 0};
        if (*n == 0) co_return Outcome{asio::error::make_error_code(asio::error::eof), 0};
        co_return Outcome{{}, *n};
    }

    static Task<Outcome> write(Channel* channel, Parts parts)
    {
        if (parts.count == 0) co_return Outcome{};
        const auto until = system_clock().steady() + kWritePatience;
        const std::span<const std::string_view> all(parts.all.data(), parts.count);
        if (!co_await channel->write_parts(all, until)) co_return Outcome{broken(), 0};
        std::size_t sent = 0;
        for (const auto part : all) sent += part.size();
        co_return Outcome{{}, sent};
    }

    template <class Handler> void begin(Task<Outcome> work, Handler handler)
    {
        auto executor = asio::get_associated_executor(handler, loop_);
        ++*under_way_;
        asio::co_spawn(
            loop_, std::move(work),
            asio::bind_executor(executor, [done = std::move(handler), count = under_way_](
                                              const std::exception_ptr& thrown, Outcome outcome) mutable {
                --*count;
                if (thrown) outcome = {broken(), 0};
                std::move(done)(outcome.first, outcome.second);
            }));
    }

    asio::any_io_executor loop_;
    Channel* channel_;
    // Shared with operations, which may end after the stream itself.
    std::shared_ptr<std::string> early_; ///< what came before the change of protocol
    std::shared_ptr<std::size_t> under_way_ = std::make_shared<std::size_t>(0);
};

/// How Beast cuts a connection whose time is over.
void beast_close_socket(ChannelStream& stream) { stream.close(); }

template <class Handler> void async_teardown(beast::role_type, ChannelStream& stream, Handler&& handler)
{
    stream.close();
    asio::post(stream.get_executor(),
               [done = std::forward<Handler>(handler)]() mutable { std::move(done)(error_code{}); });
}

class BeastSocket final : public WebSocket {
public:
    BeastSocket(asio::any_io_executor loop, Channel& channel, std::string early,
                const WebSocketOptions& options)
        : loop_(loop), channel_(channel), stream_(loop, channel, std::move(early))
    {
        stream_.read_message_max(options.message_limit);
        stream_.auto_fragment(true);
        stream_.write_buffer_bytes(options.fragment);
        stream_.text(true);
        beast::websocket::stream_base::timeout patience{};
        patience.handshake_timeout = 10s;
        patience.idle_timeout = options.ping_every * 2;
        patience.keep_alive_pings = true;
        stream_.set_option(patience);
        stream_.control_callback([heard = heard_](auto, auto) { ++*heard; });
    }

    Task<error_code> shake(const RequestHead& head)
    {
        beast::http::request<beast::http::empty_body> request(beast::http::verb::get, head.target, 11);
        for (const auto& [name, value] : head.headers) request.insert(name, value);
        const auto [error] = co_await stream_.async_accept(request, as_value);
        co_return error;
    }

    Task<std::optional<std::string>> read() override
    {
        beast::flat_buffer buffer;
        const auto [error, size] = co_await stream_.async_read(buffer, as_value);
        if (error) co_return std::nullopt;
        ++*heard_;
        co_return std::string(static_cast<const char*>(buffer.data().data()), size);
    }

    Task<Status> write(std::string text) override
    {
        const auto [error, n] = co_await stream_.async_write(asio::buffer(text), as_value);
        if (error) co_return fail(Code::Unavailable, "the connection broke: {}", error.message());
        co_return Status{};
    }

    void probe(std::chrono::milliseconds patience) override
    {
        if (*probing_) return;
        *probing_ = true;
        // The answer, or its absence, is judged when the time is over; by then the connection may be gone.
        if (!*pinging_) {
            *pinging_ = true; // one at a time, and one may be stuck behind what is being written
            stream_.async_ping({}, [pinging = pinging_](error_code) { *pinging = false; });
        }
        asio::co_spawn(loop_, judge(this, patience, alive_, heard_, probing_, *heard_), asio::detached);
    }

    Task<void> goodbye() override
    {
        (void)co_await stream_.async_close(beast::websocket::close_code::normal, as_value);
    }

    void close() noexcept override { channel_.close(); }

    Task<void> end() override
    {
        channel_.close();
        asio::steady_timer breath(loop_);
        while (stream_.next_layer().busy()) {
            breath.expires_after(1ms);
            co_await breath.async_wait(as_value);
        }
    }

    ~BeastSocket() override { *alive_ = false; }

private:
    static Task<void> judge(BeastSocket* self, std::chrono::milliseconds patience,
                            std::shared_ptr<bool> alive, std::shared_ptr<std::uint64_t> heard,
                            std::shared_ptr<bool> probing, std::uint64_t before)
    {
        asio::steady_timer timer(co_await asio::this_coro::executor, patience);
        co_await timer.async_wait(as_value);
        *probing = false;
        if (*alive && *heard == before) self->channel_.reset();
    }

    asio::any_io_executor loop_;
    Channel& channel_;
    // Shared with whoever waits for an answer to a ping: they may outlast us.
    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
    std::shared_ptr<bool> probing_ = std::make_shared<bool>(false);
    std::shared_ptr<bool> pinging_ = std::make_shared<bool>(false);
    std::shared_ptr<std::uint64_t> heard_ = std::make_shared<std::uint64_t>(0);
    beast::websocket::stream<ChannelStream> stream_;
};

} // namespace

Task<Result<std::unique_ptr<WebSocket>>> WebSocket::accept(Exchange& exchange, WebSocketOptions options)
{
    const auto& head = exchange.head();
    const bool wanted = head.upgrade && head.method == "GET" && same_word(head.value("upgrade"), "websocket");
    if (!wanted) {
        json::Object out;
        out["code"] = 400;
        out["message"] = "this is the address of a WebSocket";
        (void)co_await exchange.send(json_response(400, out));
        co_return fail(Code::Invalid, "not an upgrade to a WebSocket");
    }
    std::string early;
    auto& channel = exchange.take_over(early);
    auto socket =
        std::make_unique<BeastSocket>(co_await asio::this_coro::executor, channel, std::move(early), options);
    if (const auto error = co_await socket->shake(head))
        co_return fail(Code::Invalid, "no WebSocket: {}", error.message());
    co_return std::unique_ptr<WebSocket>(std::move(socket));
}

} // namespace berth::http

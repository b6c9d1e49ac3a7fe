// The frames and the handshake are Beast's, TLS is OpenSSL's; this is the only file of the backend that
// knows.
#include "backend/exec_server/socket.hpp"

#include <deque>
#include <future>
#include <optional>
#include <thread>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/ssl.hpp>
#include <boost/beast/websocket.hpp>
#include <boost/beast/websocket/ssl.hpp>

#include "base/strings.hpp"

namespace berth::exec_server {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace websocket = beast::websocket;
using boost::system::error_code;
using namespace std::chrono_literals;

constexpr auto as_value = asio::as_tuple(asio::use_awaitable);
constexpr auto kSilence = 60s; // without a word or an answer to a ping nobody is there
constexpr std::size_t kFragment = std::size_t{4} << 20;
constexpr std::size_t kMostQueued = std::size_t{128} << 20;

using Plain = websocket::stream<beast::tcp_stream>;
using Secure = websocket::stream<beast::ssl_stream<beast::tcp_stream>>;

Error unreachable(const Config& config, const error_code& why)
{
    Error out;
    out.code = why == beast::error::timeout ? Code::DeadlineExceeded : Code::Unavailable;
    out.message = fmt::format("{} at {} cannot be reached: {} ({})", config.place.who, config.place.text(),
                              printable(why.message(), 200), config.place.advice);
    return out;
}

Error refused(const Config& config, unsigned status, const error_code& why)
{
    if (status == 401 || status == 403)
        return fail(Code::Denied, "{} at {} refuses the token (HTTP {}); check BERTH_EXEC_SERVER_TOKEN",
                    config.place.who, config.place.text(), status)
            .error();
    if (status != 0 && status != 101)
        return fail(Code::Invalid, "what listens at {} is no exec-server (HTTP {})", config.place.text(),
                    status)
            .error();
    return unreachable(config, why);
}

template <class Stream> class BeastSocket final : public Socket {
public:
    BeastSocket(const Config& config, Ears ears)
        : config_(config), ears_(std::move(ears)), loop_(1), stream_(make_stream())
    {
    }

    ~BeastSocket() override
    {
        {
            const std::scoped_lock lock(mutex_);
            deaf_ = true;
        }
        asio::post(loop_, [this] {
            beast::get_lowest_layer(stream_).close();
            loop_.stop();
        });
        if (thread_.joinable()) thread_.join();
    }

    Status open(SteadyTime until)
    {
        std::promise<std::optional<Error>> opened;
        auto result = opened.get_future();
        asio::co_spawn(loop_, run(until, std::move(opened)), asio::detached);
        thread_ = std::thread([this] { loop_.run(); });
        if (auto why = result.get()) return std::unexpected(*std::move(why));
        return {};
    }

    void send(std::string message) override
    {
        asio::post(loop_, [this, bytes = std::move(message)]() mutable {
            queued_ += bytes.size();
            queue_.push_back(std::move(bytes));
            if (queued_ > kMostQueued)
                beast::get_lowest_layer(stream_).close(); // it does not read
            else if (queue_.size() == 1)
                asio::co_spawn(loop_, write_all(), asio::detached);
        });
    }

private:
    Stream make_stream()
    {
        if constexpr (std::is_same_v<Stream, Secure>) {
            error_code ignored;
            tls_.set_default_verify_paths(ignored);
            tls_.set_verify_mode(asio::ssl::verify_peer);
            return Stream(loop_, tls_);
        } else {
            return Stream(loop_);
        }
    }

    asio::awaitable<void> run(SteadyTime until, std::promise<std::optional<Error>> opened)
    {
        auto why = co_await shake(until);
        const bool failed = why.has_value();
        opened.set_value(std::move(why));
        if (!failed) co_await read_all();
    }

    asio::awaitable<std::optional<Error>> shake(SteadyTime until)
    {
        auto& lowest = beast::get_lowest_layer(stream_);
        asio::ip::tcp::resolver resolver(loop_);
        const auto [bad_name, found] =
            co_await resolver.async_resolve(config_.place.host, std::to_string(config_.place.port), as_value);
        if (bad_name) co_return unreachable(config_, bad_name);
        lowest.expires_at(until);
        const auto [unconnected, at] = co_await lowest.async_connect(found, as_value);
        if (unconnected) co_return unreachable(config_, unconnected);
        error_code ignored;
        lowest.socket().set_option(asio::ip::tcp::no_delay(true), ignored);
        if constexpr (std::is_same_v<Stream, Secure>) {
            auto& secure = stream_.next_layer();
            SSL_set_tlsext_host_name(secure.native_handle(), config_.place.host.c_str());
            secure.set_verify_callback(asio::ssl::host_name_verification(config_.place.host));
            const auto [untrusted] =
                co_await secure.async_handshake(asio::ssl::stream_base::client, as_value);
            if (untrusted) co_return unreachable(config_, untrusted);
        }
        lowest.expires_never();
        websocket::stream_base::timeout patience{};
        patience.handshake_timeout = std::max<std::chrono::nanoseconds>(until - system_clock().steady(), 1ms);
        patience.idle_timeout = kSilence;
        patience.keep_alive_pings = true;
        stream_.set_option(patience);
        stream_.set_option(
            websocket::stream_base::decorator([token = config_.token](websocket::request_type& r) {
                if (!token.empty()) r.set(beast::http::field::authorization, "Bearer " + token);
            }));
        stream_.read_message_max(kMostMessage);
        stream_.auto_fragment(true);
        stream_.write_buffer_bytes(kFragment);
        stream_.text(true);
        websocket::response_type response;
        const auto [error] =
            co_await stream_.async_handshake(response, config_.place.authority(), config_.target, as_value);
        // Without an answer the response says nothing.
        const bool declined = error == websocket::error::upgrade_declined;
        if (error) co_return refused(config_, declined ? response.result_int() : 0, error);
        co_return std::nullopt;
    }

    asio::awaitable<void> read_all()
    {
        for (;;) {
            beast::flat_buffer buffer;
            const auto [error, size] = co_await stream_.async_read(buffer, as_value);
            {
                const std::scoped_lock lock(mutex_);
                if (deaf_) co_return;
            }
            if (error) {
                ears_.broken(unreachable(config_, error));
                co_return;
            }
            ears_.message(std::string(static_cast<const char*>(buffer.data().data()), buffer.size()));
        }
    }

    asio::awaitable<void> write_all()
    {
        while (!queue_.empty()) {
            const auto [error, size] = co_await stream_.async_write(asio::buffer(queue_.front()), as_value);
            if (error) {
                beast::get_lowest_layer(stream_).close(); // whoever reads tells it
                co_return;
            }
            queued_ -= queue_.front().size();
            queue_.pop_front();
        }
    }

    const Config config_;
    const Ears ears_;
    asio::io_context loop_;
    asio::ssl::context tls_{asio::ssl::context::tls_client};
    Stream stream_;
    std::deque<std::string> queue_; ///< of the thread alone
    std::size_t queued_ = 0;
    std::mutex mutex_;
    bool deaf_ = false;
    std::thread thread_;
};

template <class Stream>
Result<std::unique_ptr<Socket>> connect_as(const Config& config, Socket::Ears ears, SteadyTime until)
{
    auto socket = std::make_unique<BeastSocket<Stream>>(config, std::move(ears));
    BERTH_CHECK(socket->open(until));
    return socket;
}

} // namespace

Result<std::unique_ptr<Socket>> Socket::connect(const Config& config, Ears ears, SteadyTime until)
{
    return config.place.tls ? connect_as<Secure>(config, std::move(ears), until)
                            : connect_as<Plain>(config, std::move(ears), until);
}

} // namespace berth::exec_server

#include "server/http/host.hpp"

#include <netinet/tcp.h>

#include <set>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/ids.hpp"
#include "base/log.hpp"
#include "base/strings.hpp"
#include "server/http/beat.hpp"
#include "server/http/socket_channel.hpp"
#include "server/http/tls_channel.hpp"

namespace berth::http {

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using namespace std::chrono_literals;

constexpr auto as_value = asio::as_tuple(asio::use_awaitable);
constexpr auto kHeadPatience = 30s;  // from the first byte of a head to its last
constexpr auto kIdlePatience = 630s; // clients reuse connections for ten minutes
constexpr std::chrono::seconds kFirstPatience = 30s;
constexpr auto kBreath = 50ms;
constexpr auto kLinger = 5s; // for a client that still sends what nobody wants
constexpr std::size_t kLingerBytes = std::size_t{64} << 20;
constexpr std::size_t kPiece = std::size_t{16} << 10;

SteadyTime now() { return system_clock().steady(); }

std::string error_text(int status, std::string_view message)
{
    json::Object out;
    out["code"] = status;
    out["message"] = message;
    return json::dump(out);
}

/// `name` and eight digits.
std::string numbered(const std::string& name, std::uint32_t number)
{
    std::string out(name.size() + 8, '0');
    name.copy(out.data(), name.size());
    for (auto at = out.rbegin(); number != 0; ++at, number >>= 4) *at = "0123456789abcdef"[number & 15];
    return out;
}

/// A connection that is closed while bytes are on their way to us is reset, and the client may lose the
/// answer it has not read yet: they are taken for a while.
Task<void> linger(Channel& channel)
{
    channel.end_writing();
    std::string waste(kPiece, '\0');
    const auto until = now() + kLinger;
    for (std::size_t taken = 0; taken < kLingerBytes;) {
        const auto n = co_await channel.read_some(waste, until);
        if (!n || *n == 0) co_return;
        taken += *n;
    }
}

} // namespace

struct Host::Parts {
    Parts(asio::any_io_executor loop, HostOptions wanted, Handler answer)
        : executor(loop), options(std::move(wanted)), handler(std::move(answer)), acceptor(loop),
          sweeping(loop, 1s)
    {
    }

    asio::any_io_executor executor;
    HostOptions options;
    Handler handler;
    tcp::acceptor acceptor;
    std::shared_ptr<TlsContext> tls;
    std::string name = random_hex(4); ///< of this host: what its requests' ids begin with
    Counters counters;
    std::set<Channel*> open; ///< of connections, for whoever sweeps
    bool stopping = false;
    Beat sweeping;

    Task<void> sweep();
    Task<void> connection(tcp::socket socket, std::string peer);
    Task<void> speak(Channel& channel, const std::string& peer);
    Task<bool> answer(Channel& channel, MessageParser& parser, std::string& buffer, const std::string& peer);
};

Host::Host(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Host::~Host() = default;
std::uint16_t Host::port() const noexcept { return parts_->options.port; }
const Counters& Host::counters() const noexcept { return parts_->counters; }

Task<Result<std::unique_ptr<Host>>> Host::open(HostOptions options, Handler handler)
{
    const auto executor = co_await asio::this_coro::executor;
    boost::system::error_code error;
    const auto address = asio::ip::make_address(options.address, error);
    if (error) co_return fail(Code::Invalid, "'{}' is not an address", printable(options.address, 60));
    auto parts = std::make_unique<Parts>(executor, std::move(options), std::move(handler));
    if (parts->options.tls) {
        BERTH_CO_TRY(parts->tls, make_tls_context(*parts->options.tls));
    }
    const tcp::endpoint where(address, parts->options.port);
    auto& acceptor = parts->acceptor;
    acceptor.open(where.protocol(), error);
    if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
    if (!error) acceptor.bind(where, error);
    if (!error) acceptor.listen(4096, error);
    if (error)
        co_return std::unexpected(
            Error{.code = code_of_errno(error.value()),
                  .message = fmt::format("listening on {} port {}: {}", parts->options.address,
                                         parts->options.port, error.message())});
    parts->options.port = acceptor.local_endpoint().port();
    co_return std::unique_ptr<Host>(new Host(std::move(parts)));
}

/// Deadlines are held to about a second; nobody is woken for one that is not over.
Task<void> Host::Parts::sweep()
{
    const auto time = now();
    for (auto* const channel : std::vector<Channel*>(open.begin(), open.end())) channel->check(time);
    co_return;
}

/// One request; false when the connection has had its last.
Task<bool> Host::Parts::answer(Channel& channel, MessageParser& parser, std::string& buffer,
                               const std::string& peer)
{
    auto head = parser.take_head();
    // Unique, and no secret: a name for what is told of it.
    head.id = numbered(name, static_cast<std::uint32_t>(counters.requests));
    head.peer = peer;
    auto sound = split_target(head);
    if (sound) sound = check_single(head);
    if (stopping) head.keep_alive = false;
    Exchange exchange(channel, parser, buffer, std::move(head));
    const auto begun = now();
    ++counters.requests;
    ++counters.active;
    channel.busy = true;
    try {
        if (sound)
            co_await handler(exchange);
        else
            (void)co_await exchange.send(json_response(400, error_text(400, sound.error().message)));
    } catch (const std::exception& e) {
        log::error("a request failed", {{"id", exchange.head().id}, {"what", e.what()}});
    }
    if (!exchange.begun()) {
        auto sent =
            co_await exchange.send(json_response(500, error_text(500, "the request could not be answered")));
        if (!sent) exchange.drop();
    }
    channel.busy = false;
    --counters.active;
    const int status = exchange.status();
    ++counters.by_class[status / 100 <= 5 ? static_cast<unsigned>(status / 100) : 0u];
    counters.sent += exchange.sent();
    if (log::enabled(log::Level::Info)) {
        const auto took = std::chrono::duration_cast<std::chrono::microseconds>(now() - begun);
        // Without the query: it may carry a signature.
        log::info("request", {{"id", exchange.head().id},
                              {"peer", peer},
                              {"method", exchange.head().method},
                              {"path", printable(exchange.head().path, 300)},
                              {"status", std::to_string(status)},
                              {"bytes", std::to_string(exchange.sent())},
                              {"us", std::to_string(took.count())}});
    }
    if (exchange.interrupts() && !stopping) co_await linger(channel);
    co_return exchange.reusable() && !stopping;
}

Task<void> Host::Parts::speak(Channel& channel, const std::string& peer)
{
    std::string buffer;
    // Who has never said anything is not waited for as long as who has.
    for (auto patience = kFirstPatience;; patience = kIdlePatience) {
        MessageParser parser(MessageParser::Kind::Request);
        buffer.shrink_to_fit();
        auto until = now() + patience;
        while (!parser.head_done()) {
            if (!buffer.empty()) {
                const auto used = parser.feed(buffer);
                if (!used) {
                    const int status = used.error().code == Code::Exhausted ? 431 : 400;
                    const std::string body = error_text(status, used.error().message);
                    const auto bytes = render_head(status, {{"Content-Type", "application/json"}},
                                                   Framing::Length, body.size(), false) +
                                       body;
                    (void)co_await channel.write(bytes, now() + kHeadPatience);
                    channel.end_writing();
                    co_return;
                }
                buffer.erase(0, *used);
                if (parser.head_done()) break;
                if (buffer.size() > kHeadLimit) co_return;
                until = std::min(until, now() + kHeadPatience);
            }
            const auto n = co_await channel.read_behind(buffer, until);
            if (!n || *n == 0) co_return;
        }
        if (!co_await answer(channel, parser, buffer, peer)) co_return;
    }
}

Task<void> Host::Parts::connection(tcp::socket socket, std::string peer)
{
    boost::system::error_code ignored;
    socket.set_option(tcp::no_delay(true), ignored);
    socket.set_option(asio::socket_base::keep_alive(true), ignored);
    const bool v6 = socket.local_endpoint(ignored).protocol() == tcp::v6();
    StreamSocket plain(executor);
    plain.assign(asio::generic::stream_protocol(v6 ? AF_INET6 : AF_INET, IPPROTO_TCP), socket.release(),
                 ignored);
    auto channel = tls ? make_tls_channel(std::move(plain), tls) : make_channel(std::move(plain));
    ++counters.connections;
    open.insert(channel.get());
    try {
        const auto ready = tls ? co_await tls_handshake(*channel, now() + kHeadPatience) : Status{};
        if (ready) co_await speak(*channel, peer);
    } catch (const std::exception& e) {
        log::warn("a connection ended badly", {{"peer", peer}, {"what", e.what()}});
    }
    open.erase(channel.get());
    --counters.connections;
    channel->close();
}

Task<void> Host::run()
{
    auto& parts = *parts_;
    parts.sweeping.start([&parts] { return parts.sweep(); });
    while (!parts.stopping) {
        auto [error, socket] = co_await parts.acceptor.async_accept(as_value);
        if (parts.stopping) co_return;
        if (error) {
            // Out of descriptors, or a client that has gone already: the next one may be luckier.
            asio::steady_timer breath(parts.executor, kBreath);
            co_await breath.async_wait(as_value);
            continue;
        }
        ++parts.counters.accepted;
        if (parts.open.size() >= parts.options.connections) {
            ++parts.counters.refused;
            continue; // closed as it goes out of scope
        }
        boost::system::error_code unknown;
        const auto from = socket.remote_endpoint(unknown);
        std::string peer = unknown ? std::string("?") : from.address().to_string();
        asio::co_spawn(parts.executor, parts.connection(std::move(socket), std::move(peer)), asio::detached);
    }
}

Task<void> Host::stop(std::chrono::milliseconds patience)
{
    auto& parts = *parts_;
    parts.stopping = true;
    boost::system::error_code ignored;
    parts.acceptor.close(ignored);
    for (auto* const channel : std::vector<Channel*>(parts.open.begin(), parts.open.end()))
        if (!channel->busy) channel->close();
    asio::steady_timer timer(parts.executor);
    const auto until = now() + patience;
    while (!parts.open.empty() && now() < until) {
        timer.expires_after(20ms);
        co_await timer.async_wait(as_value);
    }
    for (auto* const channel : std::vector<Channel*>(parts.open.begin(), parts.open.end())) channel->reset();
    while (!parts.open.empty() && now() < until + 5s) {
        timer.expires_after(20ms);
        co_await timer.async_wait(as_value);
    }
    co_await parts.sweeping.end();
}

} // namespace berth::http

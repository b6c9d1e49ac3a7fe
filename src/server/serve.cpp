#include "server/serve.hpp"

#include <fcntl.h>
#include <malloc.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/log.hpp"
#include "keeping/lock.hpp"
#include "lifecycle/lot.hpp"
#include "server/faces.hpp"
#include "server/gate/pages.hpp"
#include "server/http/beat.hpp"
#include "server/http/preflight.hpp"
#include "server/http/router.hpp"
#include "server/notify.hpp"
#include "server/sweeping.hpp"
#include "sys/open_files.hpp"

namespace berth::server {

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace asio::experimental::awaitable_operators;

constexpr auto as_value = asio::as_tuple(asio::use_awaitable);
constexpr auto kTick = 250ms;
constexpr auto kPredecessor = 3s;
constexpr std::size_t kThreads = 8;

std::string error_text(int status, std::string_view message)
{
    json::Object out;
    out["code"] = status;
    out["message"] = message;
    return json::dump(out);
}

/// Output and uploads move in pieces of some hundred kilobytes. By default each is mapped, faulted in and
/// unmapped again, which took a quarter of the time of a stream (measured); a few arenas keep a megabyte
/// each.
void keep_pieces()
{
    constexpr int piece = 1 << 20;
    ::mallopt(M_MMAP_THRESHOLD, piece);
    ::mallopt(M_TRIM_THRESHOLD, piece);
    ::mallopt(M_ARENA_MAX, 4);
}

/// Two servers would each have their own view of the same sandboxes. Freed by the kernel with its last
/// holder: helpers that a killed server had just started are a moment behind it, and are waited for.
Result<UniqueFd> lock_state(const std::string& data)
{
    const std::string path = data + "/serve.lock";
    UniqueFd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!lock) return fail_errno("opening {}", path);
    if (keeping::lock_within(lock.get(), keeping::Use::Alone, kPredecessor)) return lock;
    return fail(Code::Conflict, "another berth serve works in {}: end it, or use another --data", data);
}

} // namespace

class Server::Parts {
public:
    Parts(Berth& berth, ServeOptions options)
        : options_(std::move(options)), pool_(kThreads), keys_(berth.data()),
          ground_{.berth = berth,
                  .pool = pool_,
                  .keys = keys_,
                  .authentication = options_.authentication,
                  .domain = options_.domain,
                  .backend = options_.backend,
                  .rate = gate::Rate(options_.rate),
                  .quota = gate::Quota(options_.sandboxes)},
          names_{.address = options_.host.address,
                 .domain = options_.domain.substr(0, options_.domain.find(':')),
                 .origins = options_.origins},
          faces_(make_faces(ground_, options_.codex,
                            {.tls = options_.host.tls.has_value(), .registries = options_.registries}))
    {
        keys_.also(options_.own_key);
        if (options_.pool > 0) lot_.emplace(berth.lifecycle(), options_.backend, options_.pool);
    }

    Task<Status> run(Ready ready);

private:
    Task<void> answer(http::Exchange& exchange);
    Task<void> refuse(http::Exchange& exchange, std::string why);
    Task<void> preflight(http::Exchange& exchange);
    Task<void> operate(http::Exchange& exchange);
    Task<void> tick();
    Task<void> notice_keys(asio::posix::stream_descriptor& changes);
    Task<Status> open_lot();
    [[nodiscard]] std::string metrics() const;

    ServeOptions options_;
    BlockingPool pool_;
    gate::Keys keys_;
    gate::Ground ground_;
    gate::Names names_;
    std::vector<std::unique_ptr<gate::Face>> faces_;
    std::optional<Lot> lot_;
    std::unique_ptr<http::Host> host_;
    std::unique_ptr<Sweeping> sweeping_;
    bool ready_ = false;
    bool stopping_ = false;
};

/// No coroutine of its own: every request would pay for it.
Task<void> Server::Parts::answer(http::Exchange& exchange)
{
    const auto& head = exchange.head();
    gate::Face* chosen = nullptr;
    for (const auto& face : faces_) {
        if (!face->takes(head)) continue;
        chosen = face.get();
        break;
    }
    if (auto why = names_.refuse_host(head); !why.empty()) return refuse(exchange, std::move(why));
    if (chosen == nullptr || !chosen->open_to_pages(head)) {
        if (auto why = names_.refuse_page(head); !why.empty()) return refuse(exchange, std::move(why));
        if (const auto* const origin = head.header("origin")) {
            exchange.add_header("Access-Control-Allow-Origin", *origin);
            exchange.add_header("Vary", "Origin");
            exchange.add_header("Access-Control-Expose-Headers", "*"); // X-Next-Token, and how long to wait
            if (head.method == "OPTIONS") return preflight(exchange);
        }
    }
    return chosen != nullptr ? chosen->answer(exchange) : operate(exchange);
}

Task<void> Server::Parts::refuse(http::Exchange& exchange, std::string why)
{
    (void)co_await exchange.send(http::json_response(403, error_text(403, why)));
}

Task<void> Server::Parts::preflight(http::Exchange& exchange)
{
    (void)co_await exchange.send(http::preflight(exchange.head()));
}

Task<void> Server::Parts::operate(http::Exchange& exchange)
{
    const auto& head = exchange.head();
    const bool get = head.method == "GET" || head.method == "HEAD";
    if (get && head.path == "/healthz") {
        (void)co_await exchange.send(http::text_response(200, "ok\n"));
    } else if (get && head.path == "/readyz") {
        const bool good = ready_ && !stopping_;
        (void)co_await exchange.send(http::text_response(good ? 200 : 503, good ? "ready\n" : "stopping\n"));
    } else if (get && head.path == "/metrics") {
        auto response = http::text_response(200, metrics());
        response.headers.front().second = "text/plain; version=0.0.4; charset=utf-8";
        (void)co_await exchange.send(std::move(response));
    } else {
        (void)co_await exchange.send(http::json_response(404, error_text(404, "there is nothing here")));
    }
}

std::string Server::Parts::metrics() const
{
    const auto& c = host_->counters();
    std::string out;
    const auto add = [&](std::string_view name, std::string_view kind, std::string_view help, auto value) {
        out += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n{0} {3}\n", name, help, kind, value);
    };
    add("berth_http_connections", "gauge", "Connections that are open.", c.connections);
    add("berth_http_connections_total", "counter", "Connections that were accepted.", c.accepted);
    add("berth_http_connections_refused_total", "counter", "Connections closed for want of room.", c.refused);
    add("berth_http_requests_active", "gauge", "Requests being answered.", c.active);
    add("berth_http_response_bytes_total", "counter", "Bytes of answers.", c.sent);
    add("berth_sweep_actions_total", "counter", "Sandboxes stopped, destroyed or finished for their time.",
        sweeping_->done());
    add("berth_sweep_failures_total", "counter", "What a sweep could not do.", sweeping_->failed());
    out += "# HELP berth_http_requests_total Requests that were answered.\n"
           "# TYPE berth_http_requests_total counter\n";
    for (unsigned i = 1; i <= 5; ++i)
        out += fmt::format("berth_http_requests_total{{status=\"{}xx\"}} {}\n", i, c.by_class[i]);
    if (!lot_) return out;
    const auto lot = lot_->counts();
    add("berth_pool_places", "gauge", "Sandboxes that are meant to be made ahead.", lot.places);
    add("berth_pool_parked", "gauge", "Sandboxes that are made ahead and nobody's yet.", lot.parked);
    add("berth_pool_claimed_total", "counter", "New sandboxes that were made ahead.", lot.claimed);
    add("berth_pool_missed_total", "counter", "New sandboxes for which none was made ahead.", lot.missed);
    return out;
}

/// What E2B's clients ask for when they name nothing is expected before anybody has asked.
Task<Status> Server::Parts::open_lot()
{
    if (!lot_) co_return Status{};
    BERTH_CO_CHECK(co_await lot_->begin());
    SandboxSpec usual;
    BERTH_CO_TRY(usual.policy, policy::preset("sandbox"));
    lot_->expect(usual);
    co_return Status{};
}

Task<void> Server::Parts::tick()
{
    for (const auto& face : faces_) co_await face->tick();
}

/// The kernel tells of what happened in order: a key that was removed opens nothing to a request that was
/// sent afterwards.
Task<void> Server::Parts::notice_keys(asio::posix::stream_descriptor& changes)
{
    while (changes.is_open()) {
        const auto [error] = co_await changes.async_wait(asio::posix::descriptor_base::wait_read, as_value);
        if (error) co_return;
        keys_.changed();
    }
}

Task<Status> Server::Parts::run(Ready ready)
{
    const auto executor = co_await asio::this_coro::executor;
    sys::raise_open_files();
    keep_pieces();
    BERTH_CO_TRY(const auto alone, lock_state(ground_.berth.data()));
    for (const auto& face : faces_) BERTH_CO_CHECK(co_await face->begin());
    BERTH_CO_CHECK(co_await open_lot());
    asio::posix::stream_descriptor key_changes(executor);
    if (const int changes = keys_.watch(); changes >= 0) {
        key_changes.assign(::dup(changes));
        asio::co_spawn(executor, notice_keys(key_changes), asio::detached);
    }
    const http::Handler handler = [this](http::Exchange& exchange) { return answer(exchange); };
    BERTH_CO_TRY(host_, co_await http::Host::open(options_.host, handler));
    // Every name below localhost is this machine: ports of sandboxes have names without --domain, too.
    if (ground_.domain.empty() && (options_.host.address == "127.0.0.1" || options_.host.address == "::1")) {
        ground_.domain = fmt::format("localhost:{}", host_->port());
        names_.domain = "localhost";
    }
    asio::signal_set signals(executor, SIGINT, SIGTERM);
    sweeping_ = std::make_unique<Sweeping>(ground_.berth.lifecycle(), executor);
    sweeping_->start();
    ready_ = true;
    ready(host_->port());
    log::info("listening", {{"address", options_.host.address}, {"port", std::to_string(host_->port())}});
    notify("READY=1");
    http::Beat ticking(executor, kTick);
    ticking.start([this] { return tick(); });
    // Apart: a launch must not hold up what is due.
    http::Beat parking(executor, kTick);
    if (lot_) parking.start([this] { return lot_->refill(); });
    co_await (host_->run() || signals.async_wait(as_value));
    log::info("stopping", {});
    notify("STOPPING=1");
    stopping_ = true;
    co_await host_->stop(options_.drain);
    key_changes.close();
    co_await ticking.end();
    co_await sweeping_->end();
    co_await parking.end();
    if (lot_) co_await lot_->clear();
    for (const auto& face : faces_) face->leave();
    // What was on its way ends before what it works with does.
    asio::steady_timer timer(executor, kTick * 2);
    co_await timer.async_wait(as_value);
    co_return Status{};
}

Server::Server(Berth& berth, ServeOptions options)
    : parts_(std::make_unique<Parts>(berth, std::move(options)))
{
}

Server::~Server() = default;

Task<Status> Server::run(Ready ready) { co_return co_await parts_->run(std::move(ready)); }

} // namespace berth::server

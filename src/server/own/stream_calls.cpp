// A command's streams on one WebSocket: its events to the client, input, signals and sizes from it. What goes
// out is a view of the exec's log, so a connection that breaks loses nothing: the next one goes on behind the
// last event that was seen.
#include <csignal>
#include <deque>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/encoding.hpp"
#include "base/json_reader.hpp"
#include "core/exec_reader.hpp"
#include "core/write_id.hpp"
#include "lifecycle/documents.hpp"
#include "lifecycle/told_end.hpp"
#include "server/http/websocket.hpp"
#include "server/own/api.hpp"
#include "server/own/exec_words.hpp"
#include "server/own/shapes.hpp"

namespace berth::own {

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace asio::experimental::awaitable_operators;

constexpr auto as_value = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kMessage = std::size_t{4} << 20;
constexpr std::size_t kWaiting = std::size_t{8} << 20; // of input that the command has not read
constexpr auto kReadAgain = 20ms;
constexpr auto kLook = 15s;

struct Input {
    std::uint64_t write = 0;
    std::string bytes;
    bool end = false; ///< nothing comes behind it
};

class Streaming {
public:
    Streaming(const asio::any_io_executor& loop, http::WebSocket& socket, Lifecycle& lifecycle,
              Backend& where, SandboxRecord record, std::string exec, std::uint64_t from)
        : socket_(socket), lifecycle_(lifecycle), where_(where), record_(std::move(record)),
          sandbox_(Lifecycle::handle(record_)), exec_(std::move(exec)), reader_(where, sandbox_, exec_, from),
          writing_(loop), changed_(loop)
    {
        writing_.expires_at(SteadyTime::max()); // both are only ever woken
        changed_.expires_at(SteadyTime::max());
        next_ = static_cast<std::uint64_t>(
            std::chrono::duration_cast<std::chrono::milliseconds>(system_clock().now().time_since_epoch())
                .count());
    }

    Task<void> run(const bool& leaving) { co_await (tell(leaving) || listen() || feed()); }

private:
    /// Events and answers take turns.
    Task<bool> send(json::Object document)
    {
        while (busy_) co_await writing_.async_wait(as_value);
        busy_ = true;
        const auto done = co_await socket_.write(json::dump(document));
        busy_ = false;
        writing_.cancel();
        co_return done.has_value();
    }

    Task<bool> is_late(const ExecEvent& event)
    {
        if (event.kind != ExecEvent::Kind::Exit) co_return false;
        co_return co_await timed_out(lifecycle_, record_, exec_, event.status);
    }

    Task<void> send_events(const bool& leaving)
    {
        while (!reader_.closed() && !leaving) {
            const auto wake = system_clock().steady() + kLook;
            const auto events = co_await reader_.next(wake);
            if (!events) {
                co_await send(json::error_document(events.error()));
                co_return;
            }
            // Before its time and without an event: somebody who had seen everything.
            if (events->empty() && system_clock().steady() < wake) co_return;
            for (const auto& event : *events)
                if (!co_await send(documents::event(event, co_await is_late(event)))) co_return;
        }
    }

    Task<void> tell(const bool& leaving)
    {
        co_await send_events(leaving);
        co_await socket_.goodbye();
    }

    Task<void> listen()
    {
        co_await take_messages();
        socket_.close(); // whoever writes to it need not wait
    }

    /// What a client says; what it may not say is answered, and the rest goes on.
    Task<void> take_messages()
    {
        for (;;) {
            while (waiting_ > kWaiting) co_await changed_.async_wait(as_value);
            const auto text = co_await socket_.read();
            if (!text) co_return;
            auto done = co_await take(*text);
            if (!done && !co_await send(json::error_document(refusal(std::move(done).error(), exec_))))
                co_return;
        }
    }

    Task<Status> take(std::string text)
    {
        BERTH_CO_TRY(const auto document, json::parse(text, {.bytes = kMessage}));
        const json::Reader message(document);
        BERTH_CO_CHECK(message.only(members_of("StreamMessage")));
        BERTH_CO_TRY(const auto input, message.find("input"));
        BERTH_CO_TRY(const auto close, message.find("close_input"));
        if (input || close) co_return queue(message, input, close.has_value());
        BERTH_CO_TRY(const auto size, message.find("resize"));
        if (size) {
            BERTH_CO_TRY(const auto wanted, read_size(*size));
            co_return co_await where_.resize(sandbox_, exec_, wanted);
        }
        BERTH_CO_TRY(const auto signal, message.find("signal"));
        if (signal) {
            BERTH_CO_TRY(const auto number, signal->integer(1, SIGRTMAX));
            co_return co_await where_.signal(sandbox_, exec_, static_cast<int>(number));
        }
        BERTH_CO_TRY(const auto kill, message.find("kill"));
        if (kill) co_return co_await where_.kill(sandbox_, exec_);
        co_return message.refuse("none of input, close_input, resize, signal, kill");
    }

    Status queue(const json::Reader& message, const std::optional<json::Reader>& input, bool close)
    {
        Input one{.end = close};
        if (input) {
            BERTH_TRY(const auto text, input->string());
            auto bytes = base64_decode(text);
            if (!bytes) return input->refuse("must be base64");
            one.bytes = *std::move(bytes);
        }
        BERTH_TRY(const auto number, message.find("write"));
        if (number) {
            BERTH_TRY(const auto given, number->integer(1, kMostWrites));
            writing_.expires_at(SteadyTime::max()); // both are only ever woken
            changed_.expires_at(SteadyTime::max());
            next_ = static_cast<std::uint64_t>(given);
        }
        one.write = next_++;
        waiting_ += one.bytes.size();
        inputs_.push_back(std::move(one));
        changed_.cancel();
        return {};
    }

    /// Input to the command as it reads; signals and sizes do not wait behind it.
    Task<void> feed()
    {
        asio::steady_timer breath(writing_.get_executor());
        for (;;) {
            while (inputs_.empty()) co_await changed_.async_wait(as_value);
            Input one = std::move(inputs_.front());
            inputs_.pop_front();
            const std::size_t size = one.bytes.size();
            std::uint64_t id = one.write << kPartBits;
            Status done;
            while (done && !one.bytes.empty()) {
                const auto taken = co_await where_.write_input(sandbox_, exec_, id++, one.bytes);
                if (!taken) {
                    done = std::unexpected(taken.error());
                    break;
                }
                one.bytes.erase(0, *taken);
                if (one.bytes.empty()) break;
                breath.expires_after(kReadAgain);
                co_await breath.async_wait(as_value);
            }
            if (done && one.end) done = co_await where_.close_input(sandbox_, exec_, id);
            waiting_ -= size;
            changed_.cancel();
            json::Object told;
            if (!done) told = json::error_document(refusal(std::move(done).error(), exec_));
            told["event"] = "input";
            told["write"] = one.write;
            if (co_await send(std::move(told))) continue;
            socket_.close();
            co_return;
        }
    }

    http::WebSocket& socket_;
    Lifecycle& lifecycle_;
    Backend& where_;
    SandboxRecord record_;
    SandboxHandle sandbox_;
    std::string exec_;
    ExecReader reader_;
    asio::steady_timer writing_; ///< somebody waits for his turn to write
    asio::steady_timer changed_; ///< somebody waits for input to come or to go
    std::deque<Input> inputs_;
    std::size_t waiting_ = 0;
    std::uint64_t next_ = 0;
    bool busy_ = false;
};

} // namespace

Task<Answer> Api::stream_exec(Call& call)
{
    BERTH_CO_TRY(const auto record, co_await record_of(call));
    BERTH_CO_TRY(const auto exec, co_await exec_of(call, record));
    BERTH_CO_CHECK(has_log(exec));
    BERTH_CO_TRY(const auto from, first_event(call.exchange.head()));
    BERTH_CO_TRY(auto* const where, co_await lifecycle().backend(record.backend));
    if (!call.exchange.head().upgrade)
        co_return fail(Code::Invalid, "this is the address of a WebSocket; .../events is one of a stream");
    const http::WebSocketOptions options{.message_limit = kMessage};
    auto socket = co_await http::WebSocket::accept(call.exchange, options);
    if (!socket) co_return http::Response{}; // answered already
    Streaming streaming(co_await asio::this_coro::executor, **socket, lifecycle(), *where, record, exec.id,
                        from);
    co_await streaming.run(leaving_);
    co_await (*socket)->end();
    co_return http::Response{};
}

} // namespace berth::own

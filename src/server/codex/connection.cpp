#include "server/codex/connection.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/json_reader.hpp"
#include "base/log.hpp"
#include "base/scope_exit.hpp"
#include "base/strings.hpp"

namespace berth::codex {

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

constexpr auto as_value = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kUnderWay = 1024;
constexpr std::size_t kMessage = std::size_t{64} << 20;
constexpr std::size_t kUnsent = std::size_t{64} << 20;
constexpr std::size_t kAsked = std::size_t{64} << 20; ///< bytes of requests that are not answered yet
constexpr std::size_t kFileCalls = 4;                 ///< at once: each may hold a whole file
constexpr auto kProbe = 2s;
constexpr auto kTakeOver = 1500ms; // on a busy machine a client that hung up is seen late

json::Value nothing() { return json::Object{}; }

/// Whether a request may be about a whole tree.
bool takes_long(const jsonrpc::Request& request)
{
    if (request.method != "fs/remove") return request.method == "fs/walk" || request.method == "fs/copy";
    const auto* const params = request.params.if_object();
    const auto* const recursive = params == nullptr ? nullptr : params->if_contains("recursive");
    return recursive == nullptr || *recursive != json::Value(false);
}

} // namespace

Connection::Connection(Sessions& sessions, std::string tenant, std::unique_ptr<Wire> wire,
                       asio::any_io_executor loop, PlaceMaker places, std::shared_ptr<Web> web)
    : sessions_(sessions), tenant_(std::move(tenant)), wire_(std::move(wire)), loop_(loop),
      places_(std::move(places)), web_(std::move(web)), changed_(loop, SteadyTime::max())
{
}

Task<void> Connection::run()
{
    const auto self = shared_from_this();
    while (!over_) {
        auto text = co_await wire_->read();
        if (!text || !take(*std::move(text))) break;
        // What comes after the greeting is about the session that it opens, which may take a while.
        while ((greeting_ || under_way_ >= kUnderWay || unsent_ > kUnsent || asked_ > kAsked) && !over_)
            (void)co_await changed_.async_wait(as_value);
    }
    finish();
    wire_->close();
    changed_.cancel();
    if (watches_) watches_->close();
    if (calls_) calls_->close();
    handles_.clear();
    if (session_ && session_->listener() == this) {
        session_->detach();
        if (!wire_->resumable()) co_await sessions_.close(session_);
    }
    // The wire goes with its connection: nobody may be writing to it then.
    while (writing_) (void)co_await changed_.async_wait(as_value);
    outgoing_.clear();
    wire_.reset();
}

void Connection::close() noexcept
{
    finish();
    if (wire_) wire_->close();
}

void Connection::finish() noexcept
{
    over_ = true;
    left_.request_stop();
}

bool Connection::take(std::string text)
{
    auto message = jsonrpc::decode(text);
    if (!message) {
        send(jsonrpc::encode(jsonrpc::ErrorResponse{
            .id = std::int64_t{-1}, .code = jsonrpc::kInvalidRequest, .message = message.error().message}));
        return true;
    }
    if (auto* const request = std::get_if<jsonrpc::Request>(&*message)) {
        ++under_way_;
        greeting_ = greeting_ || request->method == "initialize";
        asked_ += text.size();
        asio::co_spawn(
            loop_,
            [](std::shared_ptr<Connection> self, jsonrpc::Request one, std::size_t size) -> Task<void> {
                co_await self->serve(std::move(one));
                self->asked_ -= size;
                self->changed_.cancel();
            }(shared_from_this(), std::move(*request), text.size()),
            asio::detached);
        return true;
    }
    const auto* const notification = std::get_if<jsonrpc::Notification>(&*message);
    // We ask nothing, so nobody has anything to answer.
    if (notification == nullptr || notification->method != "initialized" || stage_ == Stage::New ||
        stage_ == Stage::Initializing) {
        log::info("a client broke the protocol",
                  {{"method", notification ? printable(notification->method, 80) : "answer"}});
        return false;
    }
    stage_ = Stage::Ready;
    return true;
}

Task<void> Connection::serve(jsonrpc::Request request)
{
    Answer result = refuse(jsonrpc::kInternalError, "the request could not be answered");
    try {
        // One that is left over from a connection that has ended is not begun.
        if (!over_) result = co_await answer(request);
    } catch (const std::exception& e) {
        log::error("a request failed", {{"method", printable(request.method, 80)}, {"what", e.what()}});
    }
    --under_way_;
    if (request.method == "initialize") greeting_ = false;
    changed_.cancel();
    if (over_) co_return;
    if (!result) {
        send(jsonrpc::encode(jsonrpc::ErrorResponse{.id = std::move(request.id),
                                                    .code = result.error().code,
                                                    .message = std::move(result.error().message)}));
        co_return;
    }
    const auto id = request.id;
    std::string text =
        jsonrpc::encode(jsonrpc::Response{.id = std::move(request.id), .result = *std::move(result)});
    if (text.size() > kMessage)
        text =
            jsonrpc::encode(jsonrpc::ErrorResponse{.id = id,
                                                   .code = jsonrpc::kInternalError,
                                                   .message = "the answer is larger than a message may be"});
    send(std::move(text));
}

Task<Answer> Connection::answer(jsonrpc::Request& request)
{
    const std::string& method = request.method;
    if (method == "initialize") co_return co_await initialize(std::move(request.params));
    const auto group = method.substr(0, method.find('/'));
    const bool known = group == "environment" || group == "process" || group == "fs" ||
                       group == "capabilityRoots" || group == "capabilities" ||
                       group == "environmentConfig" || (method == "http/request" && web_);
    if (!known)
        co_return refuse(jsonrpc::kMethodNotFound, fmt::format("unknown method {}", printable(method, 80)));
    if (stage_ != Stage::Ready)
        co_return refuse(jsonrpc::kInvalidRequest,
                         fmt::format("client must {} before using {} methods",
                                     stage_ == Stage::Initialized ? "send initialized" : "call initialize",
                                     group));
    if (method == "environment/info") co_return json::Value(session_->place().info());
    if (method == "environment/status") {
        json::Object out;
        out["status"] = "ready";
        co_return json::Value(std::move(out));
    }
    if (group == "process") co_return co_await answer_process(method, std::move(request.params));
    if (group == "http") co_return co_await ask_outside(std::move(request.params));
    if (method == "fs/watchMissing") co_return co_await watch(std::move(request.params));
    if (method == "fs/open" || method == "fs/close")
        co_return co_await answer_handle(method, std::move(request.params));
    const bool slow = takes_long(request);
    co_await begin_file_call(slow);
    const ScopeExit answered([this, slow] { end_file_call(slow); });
    if (over_) co_return refuse(jsonrpc::kInternalError, "the connection is gone");
    if (method == "fs/readBlock" || method == "fs/writeBlock")
        co_return co_await answer_handle(method, std::move(request.params));
    if (group == "fs") co_return co_await answer_file(method, std::move(request.params));
    if (method == "capabilityRoots/discoverV1") co_return discover(request.params);
    if (method == "capabilities/discoverV2") {
        json::Object out;
        for (const auto* const name : {"plugins", "skills", "warnings"}) out[name] = json::Array{};
        co_return json::Value(std::move(out));
    }
    if (method == "environmentConfig/read") {
        json::Object layers;
        layers["layers"] = json::Array{};
        layers["cloudInsertionIndex"] = 0;
        const auto info = session_->place().info();
        const auto* const home = info.if_contains("userHomeDir");
        json::Object out;
        out["userHomeDir"] = home == nullptr ? json::Value("file:///") : *home;
        out["codexHomeDir"] = home == nullptr
                                  ? json::Value("file:///.codex")
                                  : json::Value(std::string(home->as_string().c_str()) + "/.codex");
        out["hostname"] = "berth";
        out["config"] = layers;
        out["requirements"] = layers;
        co_return json::Value(std::move(out));
    }
    co_return refuse(jsonrpc::kMethodNotFound, fmt::format("unknown method {}", printable(method, 80)));
}

Task<void> Connection::begin_file_call(bool slow)
{
    // A client that asks for much and reads nothing waits, before anything is read for it. Its walks through
    // trees follow each other: the threads for those are everybody's.
    while ((unsent_ > kUnsent || file_calls_ >= kFileCalls || (slow && in_a_tree_)) && !over_)
        (void)co_await changed_.async_wait(as_value);
    ++file_calls_;
    in_a_tree_ = in_a_tree_ || slow;
}

void Connection::end_file_call(bool slow)
{
    --file_calls_;
    if (slow) in_a_tree_ = false;
    changed_.cancel();
}

Task<Answer> Connection::initialize(json::Value params)
{
    const auto self = shared_from_this();
    if (stage_ != Stage::New)
        co_return refuse(jsonrpc::kInvalidRequest, "initialize may only be sent once per connection");
    const json::Reader reader(params);
    const auto name = reader.at("clientName");
    if (!name) co_return bad_params(name.error());
    if (const auto text = name->string(); !text) co_return bad_params(text.error());
    const auto resume = reader.find("resumeSessionId");
    if (!resume) co_return bad_params(resume.error());
    if (*resume) {
        auto id = (*resume)->string();
        if (!id) co_return bad_params(id.error());
        stage_ = Stage::Initializing;
        auto refused = co_await take_up(*std::move(id));
        if (!refused) {
            stage_ = Stage::New; // it may be tried again
            co_return refused;
        }
    } else {
        stage_ = Stage::Initializing;
        auto place = co_await places_();
        if (!place) {
            stage_ = Stage::New;
            co_return std::unexpected(std::move(place).error());
        }
        session_ = sessions_.open(tenant_, *std::move(place));
        if (over_) { // nobody will come back for what nobody was told
            co_await sessions_.close(session_);
            co_return refuse(jsonrpc::kInternalError, "the connection is gone");
        }
    }
    session_->attach(*this);
    stage_ = Stage::Initialized;
    json::Object out;
    out["sessionId"] = session_->id();
    out["environmentInfo"] = session_->place().info();
    co_return json::Value(std::move(out));
}

/// A session whose connection is gone. One that is still attached may have lost its client without our
/// knowing it: that is found out, and a client that has only just hung up is waited for.
Task<Answer> Connection::take_up(std::string id)
{
    const auto until = system_clock().steady() + kTakeOver;
    asio::steady_timer breath(loop_);
    for (;;) {
        const auto session = sessions_.find(id, tenant_);
        if (!session || over_)
            co_return refuse(jsonrpc::kInvalidRequest,
                             fmt::format("unknown session id {}", printable(id, 80)));
        auto* const other = session->listener();
        if (other == nullptr) {
            session_ = session;
            co_return json::Value();
        }
        other->probe();
        if (system_clock().steady() >= until)
            co_return refuse(kSessionAttached,
                             fmt::format("session {} is attached to another connection", printable(id, 80)));
        breath.expires_after(10ms);
        (void)co_await breath.async_wait(as_value);
    }
}

Task<Answer> Connection::answer_process(const std::string& method, json::Value params)
{
    const auto session = session_;
    if (method == "process/start") {
        auto start = read_start(params);
        if (!start) co_return bad_params(start.error());
        co_return co_await session->start(*std::move(start));
    }
    if (method == "process/read") {
        auto read = read_read(params);
        if (!read) co_return bad_params(read.error());
        const auto process = session->find(read->process_id);
        if (!process)
            co_return refuse(jsonrpc::kInvalidRequest,
                             fmt::format("unknown process {}", printable(read->process_id, 80)));
        const auto self = shared_from_this();
        co_return json::Value(co_await process->read(*std::move(read), [self] { return self->over_; }));
    }
    if (method == "process/write") {
        auto write = read_write(params);
        if (!write) co_return bad_params(write.error());
        const auto process = session->find(write->process_id);
        json::Object out;
        out["status"] = process ? co_await process->write(*std::move(write)) : "unknownProcess";
        co_return json::Value(std::move(out));
    }
    if (method == "process/signal") {
        const auto id = read_signal(params);
        if (!id) co_return bad_params(id.error());
        if (const auto process = session->find(*id)) process->interrupt();
        co_return nothing();
    }
    if (method == "process/terminate") {
        const auto id = read_process(params);
        if (!id) co_return bad_params(id.error());
        const auto process = session->find(*id);
        json::Object out;
        out["running"] = process && process->kill();
        co_return json::Value(std::move(out));
    }
    co_return refuse(jsonrpc::kMethodNotFound, fmt::format("unknown method {}", printable(method, 80)));
}

Task<Answer> Connection::watch(json::Value params)
{
    const auto self = shared_from_this();
    auto wanted = read_watch(params);
    if (!wanted) co_return bad_file_params(wanted.error());
    if (!watches_) {
        const std::weak_ptr<Connection> weak = weak_from_this();
        watches_ = session_->place().watcher(loop_, [weak](std::int64_t id) {
            const auto connection = weak.lock();
            if (!connection) return;
            json::Object out;
            out["watchId"] = id;
            connection->notify("fs/missingChanged", std::move(out));
        });
    }
    json::Object out;
    const auto watches = watches_; // a connection that ends lets go of them
    out["watching"] = watches && co_await watches->add(*std::move(wanted));
    co_return json::Value(std::move(out));
}

Task<Answer> Connection::ask_outside(json::Value params)
{
    constexpr std::size_t behind = std::size_t{1} << 20;
    if (!calls_) {
        const std::weak_ptr<Connection> weak = weak_from_this();
        const auto tell = [weak](std::string_view method, json::Object news) {
            if (const auto self = weak.lock()) self->notify(method, std::move(news));
        };
        const auto room = [](std::weak_ptr<Connection> of) -> Task<void> {
            const auto self = of.lock();
            while (self && self->unsent_ > behind && !self->over_)
                (void)co_await self->changed_.async_wait(as_value);
        };
        calls_ = std::make_shared<WebCalls>(web_, loop_, tell, [weak, room] { return room(weak); });
    }
    const auto calls = calls_;
    co_return co_await calls->request(std::move(params));
}

/// Skills and plugins of a root are for the client to read by itself: none are found for it here.
Answer Connection::discover(const json::Value& params) const
{
    constexpr std::size_t most = 128;
    const json::Reader reader(params);
    const auto roots = reader.at("roots");
    if (!roots) return bad_params(roots.error());
    const auto items = roots->array();
    if (!items) return bad_params(items.error());
    if (items->size() > most) return refuse(jsonrpc::kInvalidParams, fmt::format("at most {} roots", most));
    json::Array found;
    for (const auto& item : *items) {
        json::Object one;
        for (const auto* const name : {"id", "path"}) {
            const auto member = item.at(name);
            if (!member) return bad_params(member.error());
            one[name] = member->value();
        }
        for (const auto* const name : {"skills", "namespaceManifests", "warnings"}) one[name] = json::Array{};
        found.emplace_back(std::move(one));
    }
    json::Object out;
    out["roots"] = std::move(found);
    return json::Value(std::move(out));
}

void Connection::notify(std::string_view method, json::Object params)
{
    if (over_) return;
    send(jsonrpc::encode(jsonrpc::Notification{.method = std::string(method), .params = std::move(params)}));
}

void Connection::probe()
{
    if (wire_) wire_->probe(kProbe);
}

void Connection::send(std::string message)
{
    if (over_) return;
    unsent_ += message.size();
    outgoing_.push_back(std::move(message));
    if (writing_) return;
    writing_ = true;
    asio::co_spawn(
        loop_,
        [](std::shared_ptr<Connection> self) -> Task<void> {
            co_await self->write_all();
        }(shared_from_this()),
        asio::detached);
}

Task<void> Connection::write_all()
{
    while (!outgoing_.empty() && !over_) {
        std::string message = std::move(outgoing_.front());
        outgoing_.pop_front();
        const auto size = message.size();
        const auto written = co_await wire_->write(std::move(message));
        unsent_ -= size;
        changed_.cancel();
        if (session_) session_->flowed();
        if (!written) {
            finish();
            wire_->close();
        }
    }
    writing_ = false;
    changed_.cancel();
}

} // namespace berth::codex

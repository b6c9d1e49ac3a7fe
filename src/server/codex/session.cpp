#include "server/codex/session.hpp"

#include <algorithm>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/ids.hpp"
#include "base/log.hpp"
#include "base/strings.hpp"
#include "protocol/jsonrpc/message.hpp"

namespace berth::codex {

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

constexpr auto as_value = asio::as_tuple(asio::use_awaitable);
constexpr auto kAlone = 30s;
constexpr auto kRemembered = 30s;
constexpr std::size_t kProcesses = 4096;
// Of output, by all processes together; of each as much as the protocol promises, and room for what is on its
// way to a client that loses its connection.
constexpr std::size_t kKept = std::size_t{256} << 20;
constexpr std::size_t kLeastKept = std::size_t{1} << 20;
constexpr std::size_t kMostKept = std::size_t{8} << 20;
/// What a piece of output costs beside its bytes: a process keeps so many pieces, whatever their size.
constexpr std::size_t kPiece = 256;
constexpr std::size_t kBehind = std::size_t{1} << 20; ///< bytes on their way to a client, or kept for one

SteadyTime now() { return system_clock().steady(); }

} // namespace

Session::Session(std::string id, std::string tenant, std::shared_ptr<Place> place, asio::any_io_executor loop)
    : id_(std::move(id)), tenant_(std::move(tenant)), place_(std::move(place)), loop_(loop),
      flow_(loop, SteadyTime::max())
{
}

void Session::attach(Listener& listener)
{
    listener_ = &listener;
    if (alone_since_)
        for (const auto& [name, process] : processes_) process->hold();
    alone_since_.reset();
    told_alone_ = 0;
    flow_.cancel();
}

void Session::detach()
{
    listener_ = nullptr;
    alone_since_ = now();
    told_alone_ = 0;
    for (const auto& [name, process] : processes_) process->nudge();
    flow_.cancel();
}

void Session::tell(std::string_view method, json::Object params)
{
    if (listener_ != nullptr) return listener_->notify(method, std::move(params));
    if (const auto* chunk = params.if_contains("chunk")) told_alone_ += chunk->as_string().size() + kPiece;
}

/// A client that reads slowly slows the command down; one that is away can lose nothing that it has not
/// been told, so the command waits once there is enough to tell.
Task<void> Session::room()
{
    const auto self = shared_from_this();
    while (!over_) {
        const bool behind = listener_ != nullptr ? listener_->unsent() > kBehind : told_alone_ > kBehind;
        if (!behind) co_return;
        (void)co_await flow_.async_wait(as_value);
    }
}

std::shared_ptr<Process> Session::find(const std::string& id) const
{
    const auto at = processes_.find(id);
    return at == processes_.end() ? nullptr : at->second;
}

void Session::sweep()
{
    const auto time = now();
    std::erase_if(processes_, [&](const auto& entry) {
        return entry.second->closed() && entry.second->closed_at() + kRemembered < time;
    });
}

Task<Answer> Session::start(StartParams params)
{
    const auto self = shared_from_this();
    sweep();
    const std::string id = params.process_id;
    if (processes_.contains(id))
        co_return refuse(jsonrpc::kInvalidRequest,
                         fmt::format("process {} already exists", printable(id, 80)));
    if (processes_.size() >= kProcesses)
        co_return refuse(jsonrpc::kInternalError,
                         fmt::format("a session has at most {} processes", kProcesses));
    const auto process = std::make_shared<Process>(id, *this, place_->pool(), loop_);
    processes_.emplace(id, process);
    const auto each = std::clamp(kKept / processes_.size(), kLeastKept, kMostKept);
    for (const auto& [name, one] : processes_) one->keep_at_most(each);
    const bool tty = params.tty;
    const bool input = params.pipe_stdin;
    auto started = co_await place_->start(std::move(params));
    if (!started) {
        processes_.erase(id);
        co_return std::unexpected(std::move(started).error());
    }
    const bool confined = started->confined;
    process->begin(*std::move(started), tty, input);
    if (over_) {
        process->forget();
        process->kill();
    }
    json::Object out;
    out["processId"] = id;
    out["sandboxType"] = confined ? "linuxSeccomp" : "none";
    co_return json::Value(std::move(out));
}

Task<void> Session::end()
{
    const auto self = shared_from_this();
    over_ = true;
    flow_.cancel();
    for (const auto& [name, process] : processes_) {
        process->forget();
        process->kill();
        process->nudge();
    }
    asio::steady_timer breath(loop_);
    const auto until = now() + 10s;
    const auto busy = [&] {
        return std::ranges::any_of(processes_, [](const auto& entry) { return entry.second->running(); });
    };
    while (busy() && now() < until) {
        breath.expires_after(5ms);
        (void)co_await breath.async_wait(as_value);
        for (const auto& [name, process] : processes_) process->kill();
    }
    processes_.clear();
    co_await place_->leave();
}

std::shared_ptr<Session> Sessions::open(const std::string& tenant, std::shared_ptr<Place> place)
{
    std::string id = make_bare_id(system_clock()) + random_hex(8);
    auto session = std::make_shared<Session>(id, tenant, std::move(place), loop_);
    sessions_.emplace(std::move(id), session);
    return session;
}

std::shared_ptr<Session> Sessions::find(const std::string& id, const std::string& tenant) const
{
    const auto at = sessions_.find(id);
    return at == sessions_.end() || at->second->tenant() != tenant ? nullptr : at->second;
}

Task<void> Sessions::close(std::shared_ptr<Session> session)
{
    sessions_.erase(session->id());
    co_await session->end();
}

Task<void> Sessions::sweep()
{
    const auto is_late = [](const Session& session) {
        return session.alone_since() && *session.alone_since() + kAlone < now();
    };
    std::vector<std::shared_ptr<Session>> late;
    for (const auto& [id, session] : sessions_) {
        session->sweep();
        if (is_late(*session)) late.push_back(session);
    }
    for (auto& session : late) {
        // While another one ended, its client may have come back.
        if (!is_late(*session)) continue;
        log::info("a session ended: its client did not come back",
                  {{"session", session->id().substr(0, 26)}});
        co_await close(session);
    }
}

Task<void> Sessions::end()
{
    while (!sessions_.empty()) co_await close(sessions_.begin()->second);
}

} // namespace berth::codex

// Protects sandboxes from whoever has neither their token nor their tenant's key: every way to one goes
// through here.

#include "server/e2b/e2b_face.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/this_coro.hpp>

#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "server/e2b/compose.hpp"
#include "server/e2b/control.hpp"
#include "server/e2b/destination.hpp"
#include "server/e2b/files.hpp"
#include "server/e2b/filesystem_service.hpp"
#include "server/e2b/interpreter.hpp"
#include "server/e2b/port_proxy.hpp"
#include "server/e2b/process_service.hpp"
#include "server/e2b/proxy_answer.hpp"
#include "server/e2b/volume_content.hpp"

namespace berth::e2b {

namespace {

using namespace std::chrono_literals;

/// An answer in the sandbox's stead.
Task<void> send_proxy_error(http::Exchange& exchange, int status, const std::string& sandbox,
                            std::string message)
{
    const ProxyRefusal refusal{.status = status,
                               .sandbox = sandbox,
                               .message = std::move(message),
                               .title = status == 502 ? "Sandbox Not Found" : "Sandbox Error"};
    (void)co_await exchange.send(proxy_answer(exchange.head(), refusal));
}

/// Paths that only the control plane may use, which here needs none.
bool internal_path(const http::RequestHead& head)
{
    auto parts = head.segments;
    std::erase(parts, "");
    if (parts.size() != 1) return false;
    for (const std::string_view name :
         {"init", "freeze", "unfreeze", "collapse", "fsfreeze", "fsthaw", "upgrade"})
        if (parts.front() == name) return true;
    return false;
}

class E2bFace final : public gate::Face {
public:
    E2bFace(gate::Ground& ground, Settings settings)
        : ground_(ground), settings_(std::move(settings)), templates_(ground), build_files_(ground),
          volumes_(ground), content_(volumes_), sandboxes_(ground, templates_, volumes_),
          builder_({ground, sandboxes_, templates_, build_files_, settings_}),
          control_({sandboxes_, templates_, builder_, build_files_, volumes_, settings_}),
          processes_(sandboxes_), files_(sandboxes_)
    {
    }

    [[nodiscard]] std::string_view name() const override { return "e2b"; }
    Task<Status> begin() override
    {
        BERTH_CO_CHECK(co_await sandboxes_.load());
        BERTH_CO_CHECK(co_await volumes_.load());
        BERTH_CO_CHECK(co_await templates_.load());
        boost::asio::co_spawn(co_await boost::asio::this_coro::executor, processes_.begin(),
                              boost::asio::detached);
        co_return Status{};
    }
    [[nodiscard]] bool takes(const http::RequestHead& head) const override
    {
        const auto to = destination_of(head, ground_.domain);
        return !to || *to || Control::takes(head) || Files::takes_unnamed(head);
    }
    [[nodiscard]] bool open_to_pages(const http::RequestHead& head) const override
    {
        const auto to = destination_of(head, ground_.domain);
        return to && *to && (*to)->port != kEnvdPort;
    }
    Task<void> tick() override
    {
        co_await sandboxes_.tick();
        co_await build_files_.sweep();
    }
    void leave() override
    {
        sandboxes_.leave();
        builder_.leave();
    }

    Task<void> answer(http::Exchange& exchange) override;

private:
    Task<void> to_sandbox(http::Exchange& exchange, Destination to);
    Task<void> to_signer(http::Exchange& exchange);
    Task<void> envd(EnvdCall& call);
    Task<void> envd_metrics(EnvdCall& call);

    gate::Ground& ground_;
    Settings settings_;
    Templates templates_;
    BuildFiles build_files_;
    Volumes volumes_;
    VolumeContent content_;
    Sandboxes sandboxes_;
    Builder builder_;
    Control control_;
    ProcessService processes_;
    FilesystemService filesystem_;
    Files files_;
};

Task<void> send_text(http::Exchange& exchange, int status, std::string message)
{
    (void)co_await exchange.send(http::text_response(status, std::move(message)));
}

/// No coroutine of its own: every request would pay for it.
Task<void> E2bFace::answer(http::Exchange& exchange)
{
    auto to = destination_of(exchange.head(), ground_.domain);
    if (!to) return send_text(exchange, 400, to.error().message);
    if (*to) return to_sandbox(exchange, **std::move(to));
    if (VolumeContent::takes(exchange.head())) return content_.answer(exchange);
    if (!Files::takes_unnamed(exchange.head())) return control_.answer(exchange);
    return to_signer(exchange);
}

/// A signed link carries no name: whose token made the signature is the one.
Task<void> E2bFace::to_signer(http::Exchange& exchange)
{
    const auto entry = files_.signer_of(exchange.head());
    if (!entry) {
        co_await send_error(exchange, exchange.head().parameter("signature") != nullptr ? 401 : 400,
                            "no sandbox is named, and no signature tells which");
        co_return;
    }
    co_await to_sandbox(exchange, {.sandbox = entry->id, .port = kEnvdPort});
}

Task<void> E2bFace::to_sandbox(http::Exchange& exchange, Destination to)
{
    const auto& head = exchange.head();
    const auto missing = "The sandbox was not found";
    const auto entry = sandboxes_.find(to.sandbox);
    if (!entry) {
        co_await send_proxy_error(exchange, 502, to.sandbox, missing);
        co_return;
    }
    const bool to_envd = to.port == kEnvdPort;
    const bool has_token = entry->token.empty() || equal_secret(entry->token, head.value("x-access-token"));
    const bool has_traffic = entry->traffic_token.empty() ||
                             equal_secret(entry->traffic_token, head.value("e2b-traffic-access-token"));
    if (!to_envd && !has_traffic) {
        co_await send_proxy_error(exchange, 403, to.sandbox, "The traffic access token is missing or wrong");
        co_return;
    }
    if (entry->paused) {
        if (!entry->auto_resume || !entry->kept_memory) {
            co_await send_proxy_error(exchange, 502, to.sandbox, missing);
            co_return;
        }
        if (to_envd && !has_token) {
            co_await send_proxy_error(exchange, 403, to.sandbox, "The access token is missing or wrong");
            co_return;
        }
        const auto time = std::max<std::chrono::seconds>(entry->timeout, 300s);
        if (const auto resumed = co_await sandboxes_.resume(entry, true, time); !resumed) {
            co_await send_proxy_error(exchange, 409, to.sandbox, resumed.error().message);
            co_return;
        }
    }
    const auto where = co_await sandboxes_.backend(*entry);
    if (!where) {
        co_await send_proxy_error(exchange, 502, to.sandbox, where.error().message);
        co_return;
    }
    EnvdCall call{
        .exchange = exchange, .entry = entry, .backend = **where, .handle = Sandboxes::handle(*entry)};
    if (!to_envd) {
        if (entry->interpreter && to.port == kInterpreterPort) {
            // Who may run code inside has the token, as with envd. What is not known to be harmless needs
            // it: the runner reads paths in its own way.
            const auto* const first = head.segments.empty() ? nullptr : &head.segments.front();
            const bool harmless = first != nullptr && (*first == "contexts" || *first == "health");
            if (!harmless && !has_token) {
                co_await send_error(exchange, 401, "the access token is missing or wrong");
                co_return;
            }
            if (const auto ready = co_await ensure_interpreter(ground_, call); !ready) {
                co_await send_proxy_error(exchange, 500, to.sandbox, ready.error().message);
                co_return;
            }
        }
        co_await proxy_port(ground_, call, to.port);
        co_return;
    }
    // The two file routes look at signatures themselves; what is hidden is so for everybody.
    const bool open =
        head.path == "/health" || head.path == "/files" || head.method == "OPTIONS" || internal_path(head);
    if (!open && !has_token) {
        co_await send_error(exchange, 401, "the access token is missing or wrong");
        co_return;
    }
    co_await envd(call);
}

Task<void> E2bFace::envd_metrics(EnvdCall& call)
{
    if (call.entry->samples.empty()) co_await sandboxes_.sample(call.entry);
    Metric metric;
    if (!call.entry->samples.empty())
        metric = sandboxes_.metric_of(*call.entry, call.entry->samples.newest());
    json::Object out;
    out["ts"] = std::chrono::duration_cast<std::chrono::seconds>(metric.time.time_since_epoch()).count();
    out["cpu_count"] = metric.cpus;
    out["cpu_used_pct"] = metric.cpu_percent;
    out["mem_total"] = metric.memory_total;
    out["mem_used"] = metric.memory;
    out["mem_cache"] = metric.memory_cache;
    out["mem_total_mib"] = metric.memory_total >> 20;
    out["mem_used_mib"] = metric.memory >> 20;
    out["disk_used"] = metric.disk;
    out["disk_total"] = metric.disk_total;
    (void)co_await call.exchange.send(http::json_response(200, out));
}

Task<void> E2bFace::envd(EnvdCall& call)
{
    auto& exchange = call.exchange;
    const auto& head = exchange.head();
    if (internal_path(head)) {
        json::Object out;
        out["message"] = "this path is not for clients";
        out["path"] = head.path;
        out["code"] = 404;
        (void)co_await exchange.send(http::json_response(404, out));
        co_return;
    }
    if (head.path == "/health" && head.method == "GET") {
        (void)co_await exchange.send(http::empty_response().with("Cache-Control", "no-store"));
        co_return;
    }
    if (head.segments.size() == 2 && head.method == "POST") {
        const auto& service = head.segments[0];
        const auto& method = head.segments[1];
        if (service == "process.Process" && co_await processes_.answer(call, method)) co_return;
        if (service == "filesystem.Filesystem" && co_await filesystem_.answer(call, method)) co_return;
    }
    if (head.segments.size() == 1 && head.segments[0] == "files") {
        co_await files_.answer(call);
        co_return;
    }
    if (head.path == "/files/compose" && head.method == "POST") {
        co_await compose(call, sandboxes_.ground());
        co_return;
    }
    if (head.path == "/metrics" && head.method == "GET") {
        co_await envd_metrics(call);
        co_return;
    }
    if (head.path == "/envs" && head.method == "GET") {
        json::Object out;
        for (const auto& [name, value] : call.entry->env) out[name] = value;
        (void)co_await exchange.send(http::json_response(200, out));
        co_return;
    }
    co_await send_error(exchange, 404, "there is nothing here");
}

} // namespace

std::unique_ptr<gate::Face> make_face(gate::Ground& ground, Settings settings)
{
    return std::make_unique<E2bFace>(ground, std::move(settings));
}

} // namespace berth::e2b

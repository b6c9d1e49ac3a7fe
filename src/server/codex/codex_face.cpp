#include "server/codex/codex_face.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/this_coro.hpp>

#include "base/ids.hpp"
#include "base/strings.hpp"
#include "server/codex/executor.hpp"
#include "server/codex/room.hpp"
#include "server/codex/sandbox_place.hpp"
#include "server/gate/tenant.hpp"

namespace berth::codex {

namespace {

constexpr std::string_view kBearer = "Bearer ";

/// In the header, or in the address for clients that can only be given one. The log has no queries.
std::string_view secret_of(const http::RequestHead& head)
{
    const auto value = head.value("authorization");
    if (value.size() > kBearer.size() && http::same_word(value.substr(0, kBearer.size()), kBearer))
        return value.substr(kBearer.size());
    const auto* const key = head.parameter("key");
    return key == nullptr ? std::string_view{} : std::string_view(*key);
}

class CodexFace final : public gate::Face {
public:
    CodexFace(gate::Ground& ground, Ceiling ceiling) : ground_(ground), ceiling_(std::move(ceiling)) {}

    [[nodiscard]] std::string_view name() const override { return "codex"; }
    Task<Status> begin() override
    {
        loop_ = co_await boost::asio::this_coro::executor;
        BERTH_CO_TRY(traces_, Traces::open(ground_.berth.data()));
        co_await traces_->sweep(ground_.berth.lifecycle(), ground_.pool);
        if (ceiling_.served) {
            BERTH_CO_TRY(auto state, local::StateDir::open(ground_.berth.data()));
            host_ = std::make_shared<Executor>(std::move(state), ceiling_, ground_.pool);
        }
        room_ = std::make_unique<Room>(loop_, ceiling_.http.empty() ? nullptr
                                                                    : std::make_shared<Web>(ceiling_.http));
        co_return Status{};
    }
    [[nodiscard]] bool takes(const http::RequestHead& head) const override { return head.path == "/codex"; }
    [[nodiscard]] bool open_to_pages(const http::RequestHead&) const override { return false; }

    Task<void> answer(http::Exchange& exchange) override
    {
        const auto& head = exchange.head();
        const auto say = [](int status, std::string_view message) {
            json::Object out;
            out["code"] = status;
            out["message"] = message;
            return http::json_response(status, out);
        };
        // No client of this protocol is a web page, whatever pages the rest of the server is open to.
        if (head.header("origin") != nullptr) {
            (void)co_await exchange.send(say(403, "requests from web pages are not answered here"));
            co_return;
        }
        const auto tenant = gate::tenant_of(ground_, secret_of(head));
        if (!tenant) {
            (void)co_await exchange.send(say(401, "a key is needed: Authorization: Bearer KEY, or ?key=KEY"));
            co_return;
        }
        if (!ground_.rate.take(*tenant, system_clock().steady())) {
            (void)co_await exchange.send(say(429, "too many requests"));
            co_return;
        }
        const auto* const chosen = head.parameter("sandbox");
        if (chosen != nullptr && !co_await is_there(*chosen, *tenant)) {
            (void)co_await exchange.send(say(404, fmt::format("no sandbox '{}'", printable(*chosen, 60))));
            co_return;
        }
        co_await room_->welcome(exchange, *tenant,
                                places(chosen == nullptr ? std::string{} : *chosen, *tenant));
    }

    Task<void> tick() override
    {
        if (room_) co_await room_->sweep();
    }
    void leave() override
    {
        if (!room_) return;
        room_->leave();
        // A session cannot be taken up from another server: what it runs ends with this one.
        boost::asio::co_spawn(loop_, room_->end(), boost::asio::detached);
    }

private:
    /// One of the tenant's own. By its whole id: a name would tell about those of others.
    Task<bool> is_there(std::string id, std::string tenant)
    {
        if (!is_id(id, "sbx_")) co_return false;
        const auto found = co_await ground_.berth.lifecycle().find(std::move(id));
        co_return found&& gate::owned(found->spec, tenant);
    }

    /// The sandbox that was chosen; else this host, where the operator serves it; else one of the session's
    /// own.
    PlaceMaker places(std::string chosen, std::string tenant)
    {
        const SandboxGround sandboxes{ground_.berth.lifecycle(), ground_.pool, loop_, traces_};
        if (!chosen.empty()) return enter_sandbox(sandboxes, std::move(chosen));
        if (host_) return always(host_);
        AcquireRequest request;
        request.backend = ground_.backend;
        request.spec.policy = *policy::preset("sandbox");
        request.spec.labels[std::string(gate::kTenantLabel)] = tenant;
        return within_quota(std::move(tenant), make_sandboxes(sandboxes, std::move(request)));
    }

    /// Not before a session is opened: one that is taken up again needs no further sandbox.
    PlaceMaker within_quota(std::string tenant, PlaceMaker make)
    {
        return [this, tenant, make]() -> Task<Outcome<std::shared_ptr<Place>>> {
            const auto room = co_await gate::room_for(ground_, tenant);
            if (!room) co_return refuse(-32603, room.error().line());
            co_return co_await make();
        };
    }

    gate::Ground& ground_;
    Ceiling ceiling_;
    boost::asio::any_io_executor loop_;
    std::shared_ptr<Traces> traces_;
    std::shared_ptr<Executor> host_; ///< null: this host is not served
    std::unique_ptr<Room> room_;
};

} // namespace

std::unique_ptr<gate::Face> make_face(gate::Ground& ground, Ceiling ceiling)
{
    return std::make_unique<CodexFace>(ground, std::move(ceiling));
}

} // namespace berth::codex

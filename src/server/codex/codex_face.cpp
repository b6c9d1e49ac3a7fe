#include "server/codex/codex_face.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/this_coro.hpp>

#include "server/codex/room.hpp"

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
        if (!ceiling_.served) co_return Status{};
        BERTH_CO_TRY(auto state, local::StateDir::open(ground_.berth.data()));
        loop_ = co_await boost::asio::this_coro::executor;
        room_ = std::make_unique<Room>(std::move(state), ceiling_, ground_.pool, loop_);
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
        if (!room_) {
            (void)co_await exchange.send(
                say(403, "commands on this host are not served: berth serve --codex-root DIR allows them"));
            co_return;
        }
        if (!ground_.rate.take(*tenant, system_clock().steady())) {
            (void)co_await exchange.send(say(429, "too many requests"));
            co_return;
        }
        co_await room_->welcome(exchange, *tenant);
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
    gate::Ground& ground_;
    Ceiling ceiling_;
    boost::asio::any_io_executor loop_;
    std::unique_ptr<Room> room_;
};

} // namespace

std::unique_ptr<gate::Face> make_face(gate::Ground& ground, Ceiling ceiling)
{
    return std::make_unique<CodexFace>(ground, std::move(ceiling));
}

} // namespace berth::codex

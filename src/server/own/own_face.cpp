#include "server/own/own_face.hpp"

#include <boost/asio/this_coro.hpp>

#include "server/own/api.hpp"

namespace berth::own {

namespace {

class OwnFace final : public gate::Face {
public:
    explicit OwnFace(gate::Ground& ground) : api_(ground) {}

    [[nodiscard]] std::string_view name() const override { return "own"; }
    Task<Status> begin() override { co_return Status{}; }
    [[nodiscard]] bool takes(const http::RequestHead& head) const override
    {
        return head.path == "/openapi.json" || (!head.segments.empty() && head.segments.front() == "v1");
    }
    [[nodiscard]] bool open_to_pages(const http::RequestHead&) const override { return false; }
    Task<void> answer(http::Exchange& exchange) override { co_await api_.answer(exchange); }
    Task<void> tick() override { co_return; }
    void leave() override { api_.leave(); }

private:
    Api api_;
};

} // namespace

std::unique_ptr<gate::Face> make_face(gate::Ground& ground) { return std::make_unique<OwnFace>(ground); }

} // namespace berth::own

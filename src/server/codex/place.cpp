#include "server/codex/place.hpp"

#include "protocol/jsonrpc/message.hpp"

namespace berth::codex {

std::optional<RpcError> refuse_unheld(const StartParams& params)
{
    const auto because = [](std::string why) {
        return RpcError{.code = jsonrpc::kInvalidParams, .message = std::move(why)};
    };
    if (params.network_proxy) return because("networkProxy: this executor starts no proxies");
    if (params.enforce_managed_network)
        return because("enforceManagedNetwork: this executor cannot hold a command to a proxy");
    return std::nullopt;
}

PlaceMaker always(std::shared_ptr<Place> place)
{
    return [place]() -> Task<Outcome<std::shared_ptr<Place>>> { co_return place; };
}

} // namespace berth::codex

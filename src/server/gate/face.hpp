#pragma once

#include <string>
#include <string_view>

#include "base/blocking_pool.hpp"
#include "berth/berth.hpp"
#include "server/gate/keys.hpp"
#include "server/gate/quota.hpp"
#include "server/gate/rate.hpp"
#include "server/http/exchange.hpp"

namespace berth::gate {

/// What every face of the server works with. Borrowed, all of it.
struct Ground {
    Berth& berth;
    BlockingPool& pool;
    Keys& keys;
    bool authentication = true; ///< false: everybody is the default tenant
    std::string domain;         ///< below which sandboxes have names, with its port; may be empty
    std::string backend = "local";
    Rate rate{};
    Quota quota{};
};

/// One protocol of the server: a folder below src/server.
class Face {
public:
    virtual ~Face() = default;
    [[nodiscard]] virtual std::string_view name() const = 0;

    /// Called once, before anything is asked.
    virtual Task<Status> begin() = 0;
    /// Whether the request speaks this protocol. Faces are asked in order.
    [[nodiscard]] virtual bool takes(const http::RequestHead& head) const = 0;
    /// Whether a web page of somebody else may ask: traffic to a sandbox's own ports.
    [[nodiscard]] virtual bool open_to_pages(const http::RequestHead& head) const = 0;
    virtual Task<void> answer(http::Exchange& exchange) = 0;
    /// About twice a second: what is due.
    virtual Task<void> tick() = 0;
    /// Streams that would not end by themselves end now; sandboxes live on.
    virtual void leave() = 0;
};

/// Room for so many more sandboxes of a tenant, for as long as they are being made.
Task<Result<Quota::Room>> room_for(Ground& ground, std::string tenant, std::size_t count = 1);

/// The tenant a key belongs to, or the default one where nobody needs a key.
[[nodiscard]] std::optional<std::string> tenant_of(const Ground& ground, std::string_view secret);

} // namespace berth::gate

#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "berth/berth.hpp"
#include "server/codex/ceiling.hpp"
#include "server/http/host.hpp"

namespace berth::server {

struct ServeOptions {
    http::HostOptions host;
    std::string domain; ///< below which sandboxes have names, with its port; may be empty
    bool authentication = true;
    std::string own_key; ///< BERTH_API_KEY: counts beside those that are kept
    std::set<std::string> origins;
    std::string backend = "local";
    /// A tenant's template may begin with an image of these; any other would let him make us ask any machine.
    std::set<std::string> registries{"docker.io", "ghcr.io", "quay.io"};
    codex::Ceiling codex{.served = false}; ///< commands on this host itself, for Codex
    std::size_t pool = 0;                  ///< sandboxes made before they are asked for
    double rate = 0;                       ///< requests a second of one tenant; 0: any number
    std::size_t sandboxes = 0;             ///< of one tenant at once; 0: any number
    std::chrono::milliseconds drain = std::chrono::seconds(5);
};

/// Called once, when requests are answered.
using Ready = std::function<void(std::uint16_t port)>;

/// All that is served from one state directory. It must outlive the loop that runs it: what is on its way
/// when run() returns still uses it.
class Server {
public:
    Server(Berth& berth, ServeOptions options);
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;
    ~Server();

    /// Serves until a signal asks it to end, or it cannot go on. Sandboxes live on.
    Task<Status> run(Ready ready);

private:
    class Parts;
    std::unique_ptr<Parts> parts_;
};

} // namespace berth::server

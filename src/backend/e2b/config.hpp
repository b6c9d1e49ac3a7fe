#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "http_client/place.hpp"

namespace berth::e2b_client {

/// Which cloud, and with which key.
struct Config {
    std::string key;
    http_client::Origin api;
    std::optional<http_client::Origin> sandboxes; ///< all of them; else found out by `domain`
    std::string domain = "e2b.app";
    std::string template_id = "base";
    std::chrono::seconds timeout{300}; ///< how long a sandbox lives on when nobody uses it
};

/// From E2B_API_KEY, E2B_API_URL, E2B_SANDBOX_URL, E2B_DOMAIN, E2B_TEMPLATE (or E2B_TEMPLATE_ID) and
/// E2B_TIMEOUT_MS. `environment` is read, never the process's own. The key is in no error.
[[nodiscard]] Result<Config> read_config(const std::map<std::string, std::string>& environment);

/// Those of this process's variables that read_config() looks at.
[[nodiscard]] std::map<std::string, std::string> config_environment();

/// Where the daemon of a sandbox is reached. `domain` as the cloud told it with the sandbox; may be empty.
[[nodiscard]] Result<http_client::Origin> envd_origin(const Config& config, const std::string& sandbox,
                                                      const std::string& domain);

} // namespace berth::e2b_client

#pragma once

#include <map>
#include <string>

#include "http_client/place.hpp"

namespace berth::exec_server {

/// Which server, and what it wants to know.
struct Config {
    http_client::Place place;
    std::string target; ///< path and query of the upgrade; the query may hold a key and is told to nobody
    std::string token;  ///< may be empty
    std::string root;   ///< directory of the server's machine; empty: below its user's home
};

/// From BERTH_EXEC_SERVER_URL, BERTH_EXEC_SERVER_TOKEN (or _TOKEN_FILE) and BERTH_EXEC_SERVER_ROOT.
/// `environment` is read, never the process's own. Neither token nor key is in any error.
[[nodiscard]] Result<Config> read_config(const std::map<std::string, std::string>& environment);

/// Those of this process's variables that read_config() looks at.
[[nodiscard]] std::map<std::string, std::string> config_environment();

} // namespace berth::exec_server

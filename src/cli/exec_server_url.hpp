#pragma once

#include <string>

#include "base/result.hpp"

namespace CLI {
class App;
}

namespace berth::cli {

/// --url, for every verb that names a backend which may be an exec-server.
void add_url_option(CLI::App& app, std::string& url);

/// Makes the address known to the backend: to be called before there are threads. `backend` is what the
/// option `named` says. What is on a command line everybody on the machine can read: no key is taken from
/// there.
[[nodiscard]] Status use_url(const std::string& url, const std::string& backend,
                             const std::string& named = "--backend");

} // namespace berth::cli

#include "cli/exec_server_url.hpp"

#include <cstdlib>

#include <CLI/CLI.hpp>

#include "base/strings.hpp"

namespace berth::cli {

void add_url_option(CLI::App& app, std::string& url)
{
    app.add_option("--url", url,
                   "Of the backend exec-server: ws://HOST:PORT[/PATH] or wss://… (BERTH_EXEC_SERVER_URL; its "
                   "token in BERTH_EXEC_SERVER_TOKEN)")
        ->type_name("URL");
}

Status use_url(const std::string& url, const std::string& backend, const std::string& named)
{
    if (url.empty()) return {};
    if (backend != "exec-server")
        return fail(Code::Invalid, "--url is for {} exec-server, not for {}", named,
                    backend.empty() ? "what is there" : printable(backend, 40));
    if (url.find('?') != std::string::npos || url.find('@') != std::string::npos)
        return fail(Code::Invalid, "--url may hold no key: every process on this machine could read it; set "
                                   "BERTH_EXEC_SERVER_TOKEN, or BERTH_EXEC_SERVER_URL instead");
    if (::setenv("BERTH_EXEC_SERVER_URL", url.c_str(), 1) != 0) // NOLINT(concurrency-mt-unsafe): one thread
        return fail_errno("setting BERTH_EXEC_SERVER_URL");
    return {};
}

} // namespace berth::cli

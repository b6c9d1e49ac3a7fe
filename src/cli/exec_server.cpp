#include <CLI/CLI.hpp>

#include <iostream>

#include "backend/local/sweeper.hpp"
#include "base/io.hpp"
#include "base/log.hpp"
#include "base/strings.hpp"
#include "cli/codex_options.hpp"
#include "cli/session.hpp"
#include "cli/verbs.hpp"
#include "server/codex/exec_server.hpp"

namespace berth::cli {

namespace {

struct Options {
    Common common;
    CodexOptions codex;
    std::string listen = "ws://127.0.0.1:0";
    bool stdio = false;
    std::string token_file;
};

/// "ws://HOST:PORT" with an address for a host; a path is not taken.
Status parse_url(std::string text, http::HostOptions& out)
{
    const auto bad = [&] {
        return fail(Code::Invalid, "--listen '{}' is not ws://ADDRESS:PORT", printable(text, 80));
    };
    constexpr std::string_view scheme = "ws://";
    if (!text.starts_with(scheme)) return bad();
    std::string rest = text.substr(scheme.size());
    if (rest.ends_with('/')) rest.pop_back();
    const auto colon = rest.rfind(':');
    if (colon == std::string::npos) return bad();
    const auto port = parse_int(rest.substr(colon + 1), 0, 65535, "port");
    out.address = rest.substr(0, colon);
    if (out.address.starts_with('[') && out.address.ends_with(']'))
        out.address = out.address.substr(1, out.address.size() - 2);
    if (out.address == "localhost") out.address = "127.0.0.1";
    if (!port || out.address.empty()) return bad();
    out.port = static_cast<std::uint16_t>(*port);
    return {};
}

Result<std::string> read_token(const std::string& file)
{
    BERTH_TRY(auto text, read_file(file, 64_KiB));
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' '))
        text.pop_back();
    if (text.empty()) return fail(Code::Invalid, "token file {} is empty", printable(file));
    return text;
}

Result<int> run(const Options& o)
{
    codex::ExecServerOptions options;
    BERTH_TRY(options.ceiling, codex_ceiling(o.codex));
    BERTH_TRY(options.data, state_path(o.common));
    if (!o.token_file.empty()) {
        BERTH_TRY(options.token, read_token(o.token_file));
        options.ceiling.token_file = o.token_file;
    }
    BERTH_TRY(const auto state, local::StateDir::open(options.data));
    BERTH_TRY(const auto sweeper, local::Sweeper::start(state));
    BERTH_TRY(const auto berth, Berth::open({.data = options.data}));
    if (o.stdio) {
        BERTH_CHECK(berth->run(codex::serve_lines(std::move(options))));
        return 0;
    }
    BERTH_CHECK(parse_url(o.listen, options.host));
    const bool loopback = options.host.address.starts_with("127.") || options.host.address == "::1";
    if (!loopback && options.token.empty())
        return fail(Code::Denied, "--token-file is needed on {}: whoever connects runs commands here",
                    options.host.address);
    if (options.ceiling.network && options.token.empty())
        return fail(Code::Denied,
                    "--token-file is needed with --net host: a command with the host's network could "
                    "connect here and ask for more than it was given");
    const std::string address = options.host.address.find(':') == std::string::npos
                                    ? options.host.address
                                    : "[" + options.host.address + "]";
    BERTH_CHECK(berth->run(codex::serve_sockets(std::move(options), [&](std::uint16_t port) {
        const std::string url = fmt::format("ws://{}:{}", address, port);
        if (o.common.json) {
            json::Object out;
            out["listening"] = url;
            std::cout << json::dump(out) << std::endl;
        } else {
            std::cout << url << std::endl;
        }
    })));
    return 0;
}

} // namespace

int exec_server_verb(int argc, char** argv)
{
    CLI::App app("Run commands and touch files of this machine for Codex, each under the sandbox its intent "
                 "asks for:\n"
                 "what cannot be enforced is refused. Prints the address; CODEX_EXEC_SERVER_URL takes it.\n\n"
                 "Example:\n"
                 "  berth exec-server --listen ws://127.0.0.1:4567 --root ~/work\n",
                 "berth exec-server");
    Options o;
    app.add_option("--listen", o.listen, "Where to listen (default ws://127.0.0.1:0, a free port)")
        ->type_name("URL");
    app.add_flag("--stdio", o.stdio, "Speak on standard input and output instead, one message a line");
    app.add_option("--token-file", o.token_file,
                   "Ask each client for the token in this file, as a bearer token")
        ->type_name("FILE");
    add_codex_options(app, o.codex, "--root");
    app.add_option("--unsandboxed", o.codex.unsandboxed,
                   "A command that asks for no sandbox: refuse (default), confine to its directory, or allow")
        ->type_name("WORD");
    add_common(app, o.common);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, o.common, argc, argv)) return *done;
    const auto code = run(o);
    return code ? *code : report(code.error(), o.common);
}

} // namespace berth::cli

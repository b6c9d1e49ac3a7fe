#include <CLI/CLI.hpp>

#include <iostream>

#include "backend/local/sweeper.hpp"
#include "backend/registry.hpp"
#include "base/io.hpp"
#include "base/log.hpp"
#include "base/strings.hpp"
#include "cli/codex_options.hpp"
#include "cli/exec_server_url.hpp"
#include "cli/sandbox_options.hpp"
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
    std::string sandbox;
    SandboxOptions session; ///< where a backend is named
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

/// The sandbox that each session gets where a backend is named. Limits and network mean the same for it.
Result<AcquireRequest> session_sandbox(const Options& o)
{
    BERTH_CHECK(backends().check(o.session.backend));
    SandboxOptions wish = o.session;
    wish.url.clear(); // known already, and there are threads by now
    if (wish.root.empty()) wish.root = "host";
    wish.policy.net = o.codex.net;
    wish.policy.memory = o.codex.memory;
    if (o.codex.cpus > 0) wish.policy.cpus = fmt::format("{}", o.codex.cpus);
    if (o.codex.pids > 0) wish.policy.pids = std::to_string(o.codex.pids);
    AcquireRequest out;
    out.backend = wish.backend;
    BERTH_TRY(out.spec, sandbox_spec(wish));
    return out;
}

/// What speaks of this host alone means nothing in a sandbox, and would be taken for a rule.
Status check_place(const Options& o)
{
    if (!o.sandbox.empty() && !o.session.backend.empty())
        return fail(Code::Invalid, "--sandbox and --backend exclude each other");
    BERTH_CHECK(use_url(o.session.url, o.session.backend));
    const bool host = o.sandbox.empty() && o.session.backend.empty();
    if (o.session.backend.empty() && (!o.session.root.empty() || !o.session.workspaces.empty()))
        return fail(Code::Invalid, "--template and --workspace are of the sandboxes that --backend makes");
    if (!host && (!o.codex.roots.empty() || o.codex.unsandboxed != "refuse" || !o.codex.pass_env.empty()))
        return fail(Code::Invalid,
                    "--root, --unsandboxed and --pass-env are about this host, not about a sandbox");
    if (!o.sandbox.empty() &&
        (o.codex.net != "off" || !o.codex.memory.empty() || o.codex.cpus > 0 || o.codex.pids > 0))
        return fail(Code::Invalid, "--net, --memory, --cpus and --pids are what sandbox {} was made with",
                    printable(o.sandbox, 60));
    return {};
}

Result<int> run(const Options& o)
{
    codex::ExecServerOptions options;
    BERTH_CHECK(check_place(o));
    const bool here = o.sandbox.empty() && o.session.backend.empty();
    BERTH_TRY(options.ceiling, codex_ceiling(o.codex));
    BERTH_TRY(const auto data, state_path(o.common));
    if (!o.token_file.empty()) {
        BERTH_TRY(options.token, read_token(o.token_file));
        options.ceiling.token_file = o.token_file;
    }
    BERTH_TRY(const auto state, local::StateDir::open(data));
    BERTH_TRY(const auto sweeper, local::Sweeper::start(state));
    BERTH_TRY(const auto berth, Berth::open({.data = data, .threads = std::size_t{here ? 4U : 16U}}));
    options.berth = berth.get();
    options.sandbox = o.sandbox;
    if (!o.session.backend.empty()) {
        BERTH_TRY(options.session, session_sandbox(o));
    }
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
                 "  berth exec-server --listen ws://127.0.0.1:4567 --root ~/work\n"
                 "  berth exec-server --backend docker --template image:debian:12 --workspace ~/work\n",
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
    app.add_option("--sandbox", o.sandbox, "Run everything in this sandbox instead of on this machine")
        ->type_name("ID");
    o.session.backend.clear();
    o.session.root.clear();
    app.add_option("--backend", o.session.backend,
                   "Run each session in a new sandbox of this backend, which ends with it")
        ->type_name("NAME");
    add_url_option(app, o.session.url);
    app.add_option("--template", o.session.root, "What the root of those starts from (default host)")
        ->type_name("TEMPLATE");
    app.add_option("--workspace", o.session.workspaces,
                   "Show them a directory at its own path: DIR[:rw|:ro|:copy]; several times")
        ->type_name("DIR")
        ->allow_extra_args(false);
    add_common(app, o.common);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, o.common, argc, argv)) return *done;
    const auto code = run(o);
    return code ? *code : report(code.error(), o.common);
}

} // namespace berth::cli

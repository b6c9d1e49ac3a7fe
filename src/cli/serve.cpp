#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <optional>

#include "backend/local/sweeper.hpp"
#include "backend/registry.hpp"
#include "base/log.hpp"
#include "base/strings.hpp"
#include "berth/noticing.hpp"
#include "cli/codex_options.hpp"
#include "cli/exec_server_url.hpp"
#include "cli/session.hpp"
#include "cli/verbs.hpp"
#include "server/gate/keys.hpp"
#include "server/gate/self_signed.hpp"
#include "server/serve.hpp"
#include "sys/cgroup.hpp"
#include "sys/spawner.hpp"

namespace berth::cli {

namespace {

constexpr std::size_t kPool = 2;
constexpr std::size_t kPoolMost = 1000;

struct Options {
    Common common;
    std::string listen = "127.0.0.1:7600";
    std::string domain;
    std::string backend = "local";
    std::string backend_url;
    bool no_auth = false;
    std::string tls_cert;
    std::string tls_key;
    bool self_signed = false;
    std::vector<std::string> origins;
    std::vector<std::string> registries;
    std::string drain = "5s";
    std::string net_ceiling = "off";
    double rate = 0;
    std::size_t sandboxes = 0;
    std::size_t pool = kPool;
    bool pool_asked = false;
    std::size_t connections = http::HostOptions{}.connections;
    CodexOptions codex;
};

std::string environment(const char* name)
{
    const char* value = std::getenv(name); // NOLINT(concurrency-mt-unsafe): before any thread
    return value == nullptr ? std::string{} : std::string(value);
}

Status parse_listen(const std::string& text, http::HostOptions& out)
{
    const auto colon = text.rfind(':');
    const auto bad = [&] {
        return fail(Code::Invalid, "--listen '{}' is not ADDRESS:PORT", printable(text, 80));
    };
    if (colon == std::string::npos) return bad();
    out.address = text.substr(0, colon);
    if (out.address.starts_with('[') && out.address.ends_with(']'))
        out.address = out.address.substr(1, out.address.size() - 2);
    if (out.address == "localhost") out.address = "127.0.0.1";
    const auto port = parse_int(text.substr(colon + 1), 0, 65535, "port");
    if (!port || out.address.empty()) return bad();
    out.port = static_cast<std::uint16_t>(*port);
    return {};
}

bool is_loopback(const std::string& address) { return address.starts_with("127.") || address == "::1"; }

/// What a person pastes to use the server from another program.
struct Lines {
    std::string url;
    std::string key;
    std::string domain;
    std::string authority;
};

std::string show_url(const http::HostOptions& host, std::uint16_t port)
{
    std::string address = host.address;
    if (address == "0.0.0.0" || address == "::") address = "127.0.0.1";
    if (address.find(':') != std::string::npos) address = "[" + address + "]";
    return fmt::format("{}://{}:{}", host.tls ? "https" : "http", address, port);
}

void print_lines(const Common& common, const Lines& lines)
{
    if (common.json) {
        json::Object out;
        out["listening"] = lines.url;
        if (!lines.key.empty()) out["key"] = lines.key;
        if (!lines.domain.empty()) out["domain"] = lines.domain;
        if (!lines.authority.empty()) out["ca"] = lines.authority;
        std::cout << json::dump(out) << std::endl;
        return;
    }
    std::cout << "listening on " << lines.url << "\n\nE2B SDK:\n";
    const std::string key = lines.key.empty() ? "e2b_0000" : lines.key;
    std::cout << "  export E2B_API_KEY=" << key << "\n";
    if (!lines.domain.empty() && lines.url.starts_with("https")) {
        std::cout << "  export E2B_DOMAIN=" << lines.domain << "\n";
    } else {
        for (const auto* const name : {"E2B_API_URL", "E2B_SANDBOX_URL", "E2B_VOLUME_API_URL"})
            std::cout << "  export " << name << "=" << lines.url << "\n";
    }
    if (!lines.authority.empty()) std::cout << "  export NODE_EXTRA_CA_CERTS=" << lines.authority << "\n";
    std::cout << std::endl;
}

/// A name as in a web address, with a port perhaps: it ends up in links, certificates and lines to paste.
Status check_domain(const std::string& domain)
{
    const auto colon = domain.find(':');
    if (colon != std::string::npos)
        if (auto port = parse_int(domain.substr(colon + 1), 1, 65535, "port of --domain"); !port)
            return std::unexpected(std::move(port).error());
    const auto name = domain.substr(0, colon);
    const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; };
    bool fine = name.size() <= 190; // PORT-ID. comes before it
    for (const auto& label : split(name, '.'))
        fine = fine && !label.empty() && label.size() <= 63 && std::ranges::all_of(label, plain) &&
               label.front() != '-' && label.back() != '-';
    if (fine) return {};
    return fail(Code::Invalid, "--domain '{}' is not a name like sbx.example.org, in small letters",
                printable(domain, 80));
}

Result<int> run(const Options& o)
{
    server::ServeOptions options;
    if (!o.domain.empty()) BERTH_CHECK(check_domain(o.domain));
    if (o.net_ceiling != "off")
        return fail(
            Code::Unsupported,
            "--net-ceiling '{}' is not supported: sandboxes of a server have no network yet, so it is off",
            printable(o.net_ceiling, 40));
    BERTH_CHECK(backends().check(o.backend));
    BERTH_CHECK(use_url(o.backend_url, o.backend));
    BERTH_CHECK(parse_listen(o.listen, options.host));
    if (o.no_auth && !is_loopback(options.host.address))
        return fail(Code::Denied, "--no-auth is for loopback addresses alone, not for {}",
                    options.host.address);
    if (o.tls_cert.empty() != o.tls_key.empty())
        return fail(Code::Invalid, "--tls-cert and --tls-key belong together");
    if (o.self_signed && !o.tls_cert.empty())
        return fail(Code::Invalid, "--tls-self-signed and --tls-cert exclude each other");
    options.authentication = !o.no_auth;
    options.domain = o.domain;
    options.backend = o.backend;
    options.rate = o.rate;
    options.sandboxes = o.sandboxes;
    // Only one backend makes them ahead, and the others are not asked to unless somebody means it.
    options.pool = o.pool_asked || o.backend == "local" ? o.pool : 0;
    options.registries.insert(o.registries.begin(), o.registries.end());
    BERTH_TRY(options.codex, codex_ceiling(o.codex));
    // Keys are for sandboxes; commands on the host itself are the operator's to allow.
    options.codex.served = !o.codex.roots.empty();
    options.host.connections = o.connections;
    options.origins.insert(o.origins.begin(), o.origins.end());
    BERTH_TRY(const auto drain, parse_duration(o.drain));
    options.drain = std::chrono::ceil<std::chrono::milliseconds>(drain);
    BERTH_TRY(const auto path, state_path(o.common));
    std::optional<local::Sweeper> sweeper;
    if (options.codex.served) {
        BERTH_TRY(const auto state, local::StateDir::open(path));
        BERTH_TRY(auto started, local::Sweeper::start(state));
        sweeper.emplace(std::move(started));
    }
    // Where a group was given to us alone we may have to move within it; with a companion we are two.
    (void)sys::CgroupTree::open();
    // A server has thousands of descriptors and much memory, and every launch would copy them.
    BERTH_CHECK(sys::Spawner::start_companion());
    BERTH_TRY(const auto berth, Berth::open({.data = path, .threads = 16}));
    Lines lines{.domain = o.domain};
    if (!o.tls_cert.empty()) options.host.tls = http::TlsFiles{.certificate = o.tls_cert, .key = o.tls_key};
    if (o.self_signed) {
        std::vector<std::string> names{"localhost", "127.0.0.1", "::1"};
        const std::string bare = o.domain.substr(0, o.domain.find(':'));
        if (!bare.empty()) {
            names.push_back(bare);
            names.push_back("*." + bare);
        }
        if (!is_loopback(options.host.address) && options.host.address != "0.0.0.0" &&
            options.host.address != "::")
            names.push_back(options.host.address);
        BERTH_TRY(const auto made, gate::self_signed(berth->data() + "/tls", names));
        options.host.tls = made.files;
        lines.authority = made.authority;
    }
    options.own_key = environment("BERTH_API_KEY");
    if (!o.no_auth) {
        gate::Keys keys(berth->data());
        if (options.own_key.empty()) {
            BERTH_TRY(lines.key, keys.first());
        } else {
            lines.key = "$BERTH_API_KEY";
        }
    }
    const auto host = options.host;
    const Noticing noticing(berth->data());
    server::Server server(*berth, std::move(options));
    BERTH_CHECK(berth->run(server.run([&](std::uint16_t port) {
        lines.url = show_url(host, port);
        print_lines(o.common, lines);
    })));
    return 0;
}

} // namespace

int serve_verb(int argc, char** argv)
{
    CLI::App app(
        "Serve the sandboxes of this machine to other programs until Ctrl-C: E2B's protocol for\n"
        "unmodified SDKs, Codex's at /codex and berth's own below /v1, on one port. Prints the lines\n"
        "to paste. Sandboxes outlive the server.\n\n"
        "Example:\n"
        "  berth serve --listen 127.0.0.1:7600\n",
        "berth serve");
    Options o;
    app.add_option("--listen", o.listen, "Where to listen (default 127.0.0.1:7600; port 0: a free one)")
        ->type_name("ADDR:PORT");
    app.add_option("--domain", o.domain,
                   "Ports of sandboxes have names below it, PORT-ID.DOMAIN; with the port clients use")
        ->type_name("NAME[:PORT]");
    app.add_option("--backend", o.backend, "Where sandboxes are made (default local)")->type_name("NAME");
    add_url_option(app, o.backend_url);
    app.add_flag("--no-auth", o.no_auth, "Ask for no key; on loopback addresses alone");
    app.add_option("--allow-origin", o.origins, "A web page's origin that may use the server; '*': all")
        ->type_name("ORIGIN")
        ->allow_extra_args(false);
    app.add_option("--registry", o.registries,
                   "Templates may be built from images of this registry too, beside docker.io, ghcr.io and "
                   "quay.io")
        ->type_name("HOST[:PORT]")
        ->allow_extra_args(false);
    app.add_option("--tls-cert", o.tls_cert, "Speak TLS with this certificate (PEM, the whole chain)")
        ->type_name("FILE");
    app.add_option("--tls-key", o.tls_key, "Its key (PEM)")->type_name("FILE");
    app.add_flag("--tls-self-signed", o.self_signed,
                 "Speak TLS with a certificate of our own; the lines name the authority to trust");
    app.add_option("--net-ceiling", o.net_ceiling,
                   "What sandboxes may reach at most, whatever a client asks for (default and only: off)")
        ->type_name("NET");
    app.add_option("--drain", o.drain, "At the end, wait this long for requests under way (default 5s)")
        ->type_name("TIME");
    app.add_option("--rate", o.rate,
                   "Requests a second of one tenant, with bursts of ten times as many (default: any number)")
        ->type_name("N")
        ->check([](const std::string& text) {
            const double number = std::strtod(text.c_str(), nullptr);
            return std::isfinite(number) && number >= 0 ? std::string{}
                                                        : "it must be a number, and not negative";
        });
    app.add_option("--max-sandboxes", o.sandboxes,
                   "Sandboxes of one tenant at once, stopped ones too (default: any number)")
        ->type_name("N");
    auto* const pool =
        app.add_option(
               "--pool", o.pool,
               "Keep this many sandboxes ready before they are asked for, of what was asked for lately "
               "(default 2; 0: none)")
            ->type_name("N")
            ->check(CLI::Range(std::size_t{0}, kPoolMost));
    app.add_option("--connections", o.connections, "Connections at once (default 16000)")
        ->type_name("N")
        ->check(above_zero);
    add_codex_options(app, o.codex, "--codex-root");
    add_common(app, o.common);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, o.common, argc, argv)) return *done;
    o.pool_asked = pool->count() > 0;
    // The access log is what a server says; somebody who wants less says so.
    if (o.common.log_level.empty() && environment("BERTH_LOG").empty())
        log::configure(log::Level::Info, log::parse_format(o.common.log_format).value_or(log::Format::Text));
    const auto code = run(o);
    return code ? *code : report(code.error(), o.common);
}

} // namespace berth::cli

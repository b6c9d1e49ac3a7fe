#include "backend/docker/engine_place.hpp"

#include <arpa/inet.h>
#include <unistd.h>

#include <cstdlib>

#include "base/io.hpp"
#include "base/json.hpp"
#include "base/json_reader.hpp"
#include "base/sha256.hpp"
#include "base/strings.hpp"

namespace berth::docker {

namespace {

constexpr std::string_view kUsualSocket = "/var/run/docker.sock";
constexpr std::uint16_t kPlainPort = 2375;
constexpr std::uint16_t kTlsPort = 2376;

std::string value(const std::map<std::string, std::string>& all, const std::string& name)
{
    const auto at = all.find(name);
    return at == all.end() ? std::string{} : at->second;
}

std::string docker_directory(const std::map<std::string, std::string>& environment)
{
    const auto named = value(environment, "DOCKER_CONFIG");
    return named.empty() ? value(environment, "HOME") + "/.docker" : named;
}

/// The context that the client's configuration names; empty: none.
Result<std::string> configured_context(const std::string& directory)
{
    const auto text = read_file(directory + "/config.json");
    if (!text) return text.error().code == Code::NotFound ? Result<std::string>("") : text;
    BERTH_TRY(const auto document, json::parse(*text));
    BERTH_TRY(const auto named, json::Reader(document).find("currentContext"));
    if (!named) return std::string{};
    return named->string();
}

/// A context lies under the hash of its name, its certificates beside it.
Result<EnginePlace> read_context(const std::string& directory, const std::string& name)
{
    const std::string id = sha256_hex(name);
    const auto text = read_file(fmt::format("{}/contexts/meta/{}/meta.json", directory, id));
    if (!text) return fail(Code::NotFound, "no docker context '{}'", printable(name, 80));
    BERTH_TRY(const auto document, json::parse(*text));
    BERTH_TRY(const auto endpoints, json::Reader(document).at("Endpoints"));
    BERTH_TRY(const auto endpoint, endpoints.at("docker"));
    BERTH_TRY(const auto host_at, endpoint.at("Host"));
    BERTH_TRY(const auto host, host_at.string());
    BERTH_TRY(auto place, parse_engine(host));
    BERTH_TRY(const auto skips, endpoint.find("SkipTLSVerify"));
    if (skips) {
        BERTH_TRY(const bool skip, skips->boolean());
        place.verify = !skip;
    }
    const std::string certificates = fmt::format("{}/contexts/tls/{}/docker", directory, id);
    if (::access(certificates.c_str(), F_OK) == 0) {
        place.tls = true;
        place.certificates = certificates;
    }
    return place;
}

} // namespace

std::string EnginePlace::text() const
{
    return local() ? "unix://" + socket : fmt::format("tcp://{}:{}", host, port);
}

bool EnginePlace::loopback() const
{
    in_addr four{};
    if (::inet_pton(AF_INET, host.c_str(), &four) == 1) return (ntohl(four.s_addr) >> 24) == 127;
    return host == "localhost" || host == "::1" || host.ends_with(".localhost");
}

Result<EnginePlace> parse_engine(std::string_view text)
{
    const auto refuse = [&] {
        return fail(Code::Invalid, "'{}' names no engine: write unix:///path or tcp://host:port",
                    printable(text, 100));
    };
    EnginePlace out;
    if (text.starts_with("unix://")) {
        out.socket = std::string(text.substr(7));
        if (out.socket.empty() || out.socket.front() != '/') return refuse();
        return out;
    }
    const bool https = text.starts_with("https://");
    if (!text.starts_with("tcp://") && !text.starts_with("http://") && !https) return refuse();
    text.remove_prefix(text.find("://") + 3);
    text = text.substr(0, text.find('/'));
    out.tls = https;
    out.port = https ? kTlsPort : kPlainPort;
    const auto close = text.starts_with('[') ? text.find(']') : std::string_view::npos;
    const auto colon = text.rfind(':');
    if (colon != std::string_view::npos && (close == std::string_view::npos || colon > close)) {
        const auto port = parse_int(text.substr(colon + 1), 1, 65535, "port");
        if (!port) return refuse();
        out.port = static_cast<std::uint16_t>(*port);
        text = text.substr(0, colon);
    }
    out.host = std::string(close == std::string_view::npos ? text : text.substr(1, close - 1));
    if (out.host.empty()) return refuse();
    return out;
}

Result<EnginePlace> find_engine(const std::map<std::string, std::string>& environment)
{
    const auto host = value(environment, "DOCKER_HOST");
    if (!host.empty()) {
        BERTH_TRY(auto place, parse_engine(host));
        const bool verify = !value(environment, "DOCKER_TLS_VERIFY").empty();
        if (!place.local() && (verify || place.tls)) {
            place.tls = true;
            place.verify = verify || place.verify;
            const auto named = value(environment, "DOCKER_CERT_PATH");
            place.certificates = named.empty() ? docker_directory(environment) : named;
        }
        return place;
    }
    const auto directory = docker_directory(environment);
    auto context = value(environment, "DOCKER_CONTEXT");
    if (context.empty()) {
        BERTH_TRY(context, configured_context(directory));
    }
    if (!context.empty() && context != "default") return read_context(directory, context);
    EnginePlace usual;
    usual.socket = kUsualSocket;
    return usual;
}

std::map<std::string, std::string> engine_environment()
{
    std::map<std::string, std::string> out;
    for (const char* name :
         {"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "HOME"})
        if (const char* set = std::getenv(name); set != nullptr) out[name] = set;
    return out;
}

} // namespace berth::docker

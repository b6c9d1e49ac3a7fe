#include "backend/docker/engine.hpp"

#include <sys/utsname.h>

#include <algorithm>

#include "base/json_reader.hpp"
#include "base/strings.hpp"

namespace berth::docker {

namespace {

using namespace std::chrono_literals;

constexpr auto kConnectPatience = 10s;
constexpr auto kHandOverPatience = 60s;
constexpr std::size_t kLargestHead = std::size_t{64} << 10;
constexpr std::size_t kLongestMessage = 500;
constexpr std::string_view kHost = "engine"; // engines do not care what they are called

// What this backend was written against: 1.41 is Docker 20.10, 1.24 the oldest that has all it uses.
constexpr int kOldest = 24;
constexpr int kNewest = 47;

/// The minor number of "1.41".
std::optional<int> minor(std::string_view version)
{
    if (!version.starts_with("1.")) return std::nullopt;
    const auto number = parse_int(version.substr(2), 0, 9999, "version");
    if (!number) return std::nullopt;
    return static_cast<int>(*number);
}

std::string message_of(std::string_view body)
{
    const auto document = json::parse(body);
    if (document)
        if (const auto said = json::Reader(*document).find("message"); said && *said)
            if (const auto text = (*said)->string()) return *text;
    return std::string(body);
}

/// What was agreed upon was another engine's, before this one was put in its place: "client version 1.41 is
/// too old. Minimum supported API version is 1.44, …".
bool is_other_version(const Error& error)
{
    return error.code == Code::Invalid && error.message.find("client version") != std::string::npos;
}

} // namespace

Result<std::string> agree_on_version(std::string_view least, std::string_view most)
{
    const auto top = minor(most);
    if (!top) return fail(Code::Unavailable, "the engine tells no version of its API");
    const int bottom = minor(least).value_or(0);
    if (*top < kOldest)
        return fail(Code::Unsupported, "the engine's API {} is older than 1.{}, the oldest that berth speaks",
                    most, kOldest);
    if (bottom > kNewest)
        return fail(Code::Unsupported, "the engine's API begins at {}, newer than 1.{} that berth speaks",
                    least, kNewest);
    return fmt::format("/v1.{}", std::min(*top, kNewest));
}

Error refusal(unsigned status, std::string_view body)
{
    Error out;
    std::string said = message_of(body);
    while (!said.empty() && (said.back() == '\n' || said.back() == ' ')) said.pop_back();
    out.message = said.empty() ? fmt::format("the engine answers {}", status)
                               : "the engine says: " + printable(said, kLongestMessage);
    switch (status) {
    case 400: out.code = Code::Invalid; break;
    case 401:
    case 403: out.code = Code::Denied; break;
    case 404: out.code = Code::NotFound; break;
    case 409: out.code = Code::Conflict; break;
    case 501: out.code = Code::Unsupported; break;
    case 503: out.code = Code::Unavailable; break;
    default: out.code = Code::Internal;
    }
    // What the engine itself could not reach: a registry.
    for (const std::string_view word : {"dial tcp", "no such host", "i/o timeout", "connection refused",
                                        "connection reset", "unexpected EOF", ": EOF"})
        if (status == 500 && said.find(word) != std::string::npos) out.code = Code::Unavailable;
    if (said.find("no space left on device") != std::string::npos) out.code = Code::Exhausted;
    return out;
}

Error explain_tls(Error error, const EnginePlace& place)
{
    if (place.local()) return error;
    const auto says = [&](std::initializer_list<std::string_view> words) {
        return std::ranges::any_of(
            words, [&](std::string_view word) { return error.message.find(word) != std::string::npos; });
    };
    const std::string where = place.certificates.empty() ? "DOCKER_CERT_PATH" : place.certificates;
    if (!place.tls && says({"HTTP request to an HTTPS server"})) {
        error.code = Code::Unavailable;
        error.message = fmt::format("the engine at {} speaks TLS only: set DOCKER_TLS_VERIFY=1 and "
                                    "DOCKER_CERT_PATH, or use a context with certificates",
                                    place.text());
    } else if (place.tls && says({"wrong version number", "packet length too long", "http request"})) {
        error.message += ": it does not speak TLS there; unset DOCKER_TLS_VERIFY if that is meant";
    } else if (place.tls && says({"the connection ended", "unexpected eof"})) {
        // It may have gone before its reason came through.
        error.message +=
            fmt::format(": the engine may want a certificate of ours that it trusts; cert.pem and "
                        "key.pem are looked for in {}",
                        where);
    } else if (place.tls &&
               says({"certificate required", "bad certificate", "unknown ca", "handshake failure"})) {
        error.code = Code::Denied;
        error.message += fmt::format(": the engine wants a certificate of ours that it trusts; cert.pem and "
                                     "key.pem are looked for in {}",
                                     where);
    } else if (place.tls &&
               says({"issuer certificate", "self-signed", "self signed", "certificate has expired",
                     "hostname mismatch", "IP address mismatch", "not yet valid"})) {
        error.message += fmt::format(": the engine's certificate is not good by the ca.pem in {}", where);
    }
    return error;
}

Result<http_client::Wire> Engine::connect() const
{
    const http_client::Place place{
        .socket = place_.socket,
        .host = place_.host,
        .port = place_.port,
        .tls = place_.tls,
        .verify = place_.verify,
        .certificates = place_.certificates,
        .who = "the engine",
        .advice = "start docker, or name another one in DOCKER_HOST",
        .refused = "join its group (usually docker) or run berth as root",
    };
    auto wire = http_client::Wire::connect(place, system_clock().steady() + kConnectPatience);
    if (!wire) return std::unexpected(explain_tls(std::move(wire).error(), place_));
    return wire;
}

Result<std::string> Engine::prefix() const
{
    BERTH_CHECK(Status(unusable_));
    const std::scoped_lock lock(mutex_);
    if (!prefix_.empty()) return prefix_;
    BERTH_TRY(auto wire, connect());
    // With TLS 1.3 an engine refuses our certificate only when we read from it.
    const auto answer = exchange(wire, kHost, {.target = "/version"}, {.patience = kConnectPatience});
    if (!answer) return std::unexpected(explain_tls(answer.error(), place_));
    if (answer->status != 200)
        return std::unexpected(explain_tls(refusal(answer->status, answer->body), place_));
    BERTH_TRY(const auto document, json::parse(answer->body));
    podman_ = answer->body.find("\"Podman Engine\"") != std::string::npos;
    const json::Reader at(document);
    BERTH_TRY(const auto most_at, at.at("ApiVersion"));
    BERTH_TRY(const auto most, most_at.string());
    BERTH_TRY(const auto least_at, at.find("MinAPIVersion"));
    std::string least;
    if (least_at) {
        BERTH_TRY(least, least_at->string());
    }
    BERTH_TRY(prefix_, agree_on_version(least, most));
    return prefix_;
}

Result<HttpAnswer> Engine::call(HttpRequest request, const HttpLimits& limits, const ByteSink& sink) const
{
    const std::string target = request.target;
    BERTH_TRY(const auto version, prefix());
    request.target = version + target;
    auto answer = ask(request, limits, sink);
    if (answer || !is_other_version(answer.error())) return answer;
    {
        const std::scoped_lock lock(mutex_);
        prefix_.clear();
    }
    if (request.source) return answer; // some of it is given away
    BERTH_TRY(const auto other, prefix());
    request.target = other + target;
    return other == version ? answer : ask(request, limits, sink);
}

Result<HttpAnswer> Engine::ask(const HttpRequest& request, const HttpLimits& limits,
                               const ByteSink& sink) const
{
    BERTH_TRY(auto wire, connect());
    auto answer = exchange(wire, kHost, request, limits, sink);
    if (!answer && (answer.error().sys.value() == ECONNRESET || answer.error().sys.value() == EPIPE)) {
        Error error = std::move(answer).error();
        error.code = Code::Unavailable;
        return std::unexpected(std::move(error));
    }
    if (!answer) return answer;
    if (answer->status >= 300 && answer->status != 304)
        return std::unexpected(refusal(answer->status, answer->body));
    return answer;
}

Result<UniqueFd> Engine::hijack(const std::string& target, const json::Object& body, std::string& early) const
{
    BERTH_TRY(const auto version, prefix());
    BERTH_TRY(auto wire, connect());
    const auto until = system_clock().steady() + kHandOverPatience;
    const std::string document = json::dump(body);
    BERTH_CHECK(wire.write(
        fmt::format("POST {}{} HTTP/1.1\r\nHost: {}\r\nUser-Agent: berth\r\nConnection: Upgrade\r\nUpgrade: "
                    "tcp\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{}",
                    version, target, kHost, document.size(), document),
        until));
    std::string came;
    std::size_t end = std::string::npos;
    while ((end = came.find("\r\n\r\n")) == std::string::npos) {
        char piece[4096];
        BERTH_TRY(const auto n, wire.read(&piece[0], sizeof piece, until));
        if (n == 0) return fail(Code::Unavailable, "the engine ended the connection without an answer");
        came.append(&piece[0], n);
        if (came.size() > kLargestHead) return fail(Code::Unavailable, "the engine's answer has no end");
    }
    // "HTTP/1.1 101 UPGRADED"; engines before 1.24 of the API say 200.
    const auto status = came.starts_with("HTTP/1.") && end > 12
                            ? parse_int(came.substr(9, 3), 100, 599, "status")
                            : fail(Code::Unavailable, "no status");
    if (!status) return fail(Code::Unavailable, "the engine's answer is not HTTP");
    early = came.substr(end + 4);
    if (*status != 101 && *status != 200) {
        // Its words are as long as the head says, which is not worth parsing: what comes at once is enough.
        if (early.empty()) {
            char piece[4096];
            early.assign(&piece[0], wire.read(&piece[0], sizeof piece, until).value_or(0));
        }
        return std::unexpected(refusal(static_cast<unsigned>(*status), early));
    }
    return http_client::Wire::into_socket(std::move(wire));
}

Result<std::string> Engine::identity() const
{
    {
        const std::scoped_lock lock(mutex_);
        if (!identity_.empty()) return identity_;
    }
    BERTH_TRY(const auto document, get("/info"));
    const json::Reader at(document);
    const auto word = [&](const char* name) -> Result<std::string> {
        BERTH_TRY(const auto member, at.at(name));
        return member.string();
    };
    BERTH_TRY(auto text, word("ID"));
    const std::scoped_lock lock(mutex_);
    // Podman makes up another one each time it is asked.
    if (podman_) {
        BERTH_TRY(const auto name, word("Name"));
        BERTH_TRY(const auto root, word("DockerRootDir"));
        text = fmt::format("podman {} {}", name, root);
    }
    return identity_ = std::move(text);
}

Result<bool> Engine::here() const
{
    BERTH_CHECK(Status(unusable_));
    if (place_.local()) return true;
    if (!place_.loopback()) return false;
    {
        const std::scoped_lock lock(mutex_);
        if (here_) return *here_;
    }
    // A forwarded port leads elsewhere: there the machine has another name, or another kernel.
    BERTH_TRY(const auto document, get("/info"));
    const std::scoped_lock lock(mutex_);
    here_ = elsewhere(document).empty();
    return *here_;
}

std::string elsewhere(const json::Value& info)
{
    utsname own{};
    if (::uname(&own) != 0) return {};
    const auto told = [&](const char* name) {
        const auto member = json::Reader(info).find(name);
        return member && *member ? (*member)->string().value_or("") : std::string{};
    };
    if (told("Name") == &own.nodename[0] && told("KernelVersion") == &own.release[0]) return {};
    return printable(fmt::format("{}, Linux {}", told("Name"), told("KernelVersion")), 120);
}

Result<json::Value> Engine::get(const std::string& target) const
{
    BERTH_TRY(const auto answer, call({.target = target}));
    return json::parse(answer.body, {.bytes = 32u << 20});
}

Result<json::Value> Engine::post(const std::string& target, const json::Object& body) const
{
    BERTH_TRY(const auto answer, call({.method = "POST",
                                       .target = target,
                                       .headers = {{"Content-Type", "application/json"}},
                                       .body = json::dump(body)}));
    // Podman says nothing with an end of line.
    if (answer.body.find_first_not_of(" \r\n") == std::string::npos) return json::Value{};
    return json::parse(answer.body);
}

Status Engine::post(const std::string& target) const
{
    BERTH_TRY([[maybe_unused]] const auto answer, call({.method = "POST", .target = target}));
    return {};
}

Status Engine::remove(const std::string& target) const
{
    BERTH_TRY([[maybe_unused]] const auto answer, call({.method = "DELETE", .target = target}));
    return {};
}

} // namespace berth::docker

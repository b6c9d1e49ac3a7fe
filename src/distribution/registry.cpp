// A registry is a stranger: what it sends is bounded, and named by digests that are computed here. It may
// send us elsewhere, but only over TLS (or, where it is on this machine, to this machine), and never with
// what it was told of who asks.

#include "distribution/registry.hpp"

#include <algorithm>
#include <thread>

#include "base/encoding.hpp"
#include "base/sha256.hpp"
#include "base/strings.hpp"
#include "distribution/challenge.hpp"

namespace berth::distribution {

namespace {

using namespace std::chrono_literals;
using http_client::HttpAnswer;

constexpr int kMostRedirects = 5;
constexpr int kTries = 4;
constexpr auto kFirstPause = 300ms;
constexpr auto kPatience = 20s; // without a byte

constexpr std::string_view kAccept =
    "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json";

std::string origin_of(const std::string& registry)
{
    if (registry == "docker.io") return "https://registry-1.docker.io";
    return (is_loopback(registry) ? "http://" : "https://") + registry;
}

bool temporary(const HttpAnswer& answer)
{
    return answer.status == 429 || answer.status == 500 || (answer.status >= 502 && answer.status <= 504);
}

} // namespace

Registry::Registry(Reference reference, Login login, End end)
    : reference_(std::move(reference)), login_(std::move(login)), end_(std::move(end)),
      origin_(origin_of(reference_.registry))
{
}

Status Registry::in_time() const
{
    if (end_.stop.stop_requested()) return fail(Code::Conflict, "it was given up");
    if (system_clock().steady() >= end_.until) return fail(Code::DeadlineExceeded, "it took too long");
    return {};
}

Result<Registry::Target> Registry::allowed(const std::string& url) const
{
    if (url.starts_with('/')) return Target{.origin = origin_, .path = url};
    const auto scheme = url.find("://");
    const auto slash = scheme == std::string::npos ? scheme : url.find_first_of("/?", scheme + 3);
    Target out{.origin = url.substr(0, slash), .path = slash == std::string::npos ? "/" : url.substr(slash)};
    if (out.path.starts_with('?')) out.path = "/" + out.path;
    const bool plain = std::ranges::all_of(url, [](char c) { return c > ' ' && c < 0x7f; });
    const bool here = out.origin.starts_with("http://") && is_loopback(reference_.registry) &&
                      is_loopback(out.origin.substr(7));
    if (!plain || (!out.origin.starts_with("https://") && !here && out.origin != origin_))
        return fail(Code::Denied, "registry {} sends us to {}, which is not asked", reference_.registry,
                    printable(url.substr(0, 100), 100));
    return out;
}

Error Registry::refusal(const HttpAnswer& answer, std::string_view what) const
{
    Error out;
    out.message = fmt::format("registry {} answers {} to a question for {}", reference_.registry,
                              answer.status, printable(what, 120));
    switch (answer.status) {
    case 401:
    case 403:
        out.code = Code::Denied;
        out.message =
            fmt::format("registry {} does not give {} to {}", reference_.registry, printable(what, 120),
                        login_.username.empty() ? "anybody: it wants a login" : "this login");
        break;
    case 404:
        out.code = Code::NotFound;
        out.message = fmt::format("registry {} has no {}", reference_.registry, printable(what, 120));
        break;
    case 429: out.code = Code::Exhausted; break;
    default: out.code = answer.status >= 500 ? Code::Unavailable : Code::Internal;
    }
    return out;
}

Result<HttpAnswer> Registry::once(const Target& target, std::map<std::string, std::string> headers,
                                  const ByteSink& sink)
{
    auto& client = clients_[target.origin];
    if (!client) {
        BERTH_TRY(auto origin, http_client::parse_url(target.origin));
        origin.place.who = "the registry";
        client = std::make_unique<http_client::Client>(std::move(origin.place));
    }
    if (target.origin == origin_ && !authorization_.empty()) headers["Authorization"] = authorization_;
    BERTH_CHECK(in_time());
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end_.until - system_clock().steady());
    http_client::HttpRequest request{.target = target.path, .headers = std::move(headers)};
    return client
        ->call(std::move(request),
               {.patience = std::min<std::chrono::milliseconds>(kPatience, left),
                .body = image::oci::kLargestDocument},
               sink)
        .answer;
}

/// Basic at once; for a token the realm is asked.
Status Registry::authorize(const std::string& header)
{
    BERTH_TRY(const auto challenge, parse_challenge(header));
    const std::string basic =
        login_.username.empty()
            ? std::string{}
            : "Basic " + base64_encode(fmt::format("{}:{}", login_.username, login_.password));
    if (challenge.scheme == Challenge::Scheme::Basic) {
        if (basic.empty()) return fail(Code::Denied, "registry {} wants a login", reference_.registry);
        // In the clear only to this machine.
        authorization_ = basic;
        return {};
    }
    BERTH_TRY(auto target, allowed(challenge.realm));
    const std::string scope =
        challenge.scope.empty() ? fmt::format("repository:{}:pull", reference_.repository) : challenge.scope;
    target.path +=
        fmt::format("{}service={}&scope={}", target.path.find('?') == std::string::npos ? '?' : '&',
                    http_client::url_encode(challenge.service), http_client::url_encode(scope));
    std::map<std::string, std::string> headers;
    if (!basic.empty()) headers["Authorization"] = basic;
    authorization_.clear();
    BERTH_TRY(const auto answer, once(target, std::move(headers), {}));
    if (answer.status >= 300) return std::unexpected(refusal(answer, "a token"));
    BERTH_TRY(const auto token, read_token(answer.body));
    authorization_ = "Bearer " + token;
    return {};
}

Result<HttpAnswer> Registry::get(Target target, std::map<std::string, std::string> headers,
                                 const ByteSink& sink)
{
    bool asked = false;
    for (int redirects = 0; redirects <= kMostRedirects;) {
        BERTH_TRY(auto answer, once(target, headers, sink));
        if (answer.status == 401 && !asked && target.origin == origin_) {
            asked = true;
            BERTH_CHECK(authorize(answer.header("www-authenticate")));
            continue;
        }
        if (answer.status < 301 || answer.status > 308 || answer.status == 304) return answer;
        ++redirects;
        BERTH_TRY(target, allowed(answer.header("location")));
    }
    return fail(Code::Unavailable, "registry {} sends us round and round", reference_.registry);
}

Result<Registry::Document> Registry::manifest(const std::string& wanted)
{
    const Target target{.origin = origin_,
                        .path = fmt::format("/v2/{}/manifests/{}", reference_.repository, wanted)};
    for (int tries = 1;; ++tries) {
        auto answer = get(target, {{"Accept", std::string(kAccept)}}, {});
        const bool again = answer ? temporary(*answer) : answer.error().code == Code::Unavailable;
        if (again && tries < kTries) {
            std::this_thread::sleep_for(kFirstPause * tries);
            continue;
        }
        if (!answer) return std::unexpected(std::move(answer).error());
        if (answer->status != 200) return std::unexpected(refusal(*answer, reference_.text()));
        if (wanted.starts_with("sha256:") && sha256_hex(answer->body) != wanted.substr(7))
            return fail(Code::Invalid, "the manifest that registry {} sent is not {}", reference_.registry,
                        wanted);
        return Document{.media_type = answer->header("content-type"), .text = std::move(answer->body)};
    }
}

Status Registry::blob(const image::oci::Descriptor& what, const std::function<Status()>& restart,
                      const ByteSink& sink)
{
    const Target target{.origin = origin_,
                        .path = fmt::format("/v2/{}/blobs/sha256:{}", reference_.repository, what.sha256)};
    for (int tries = 1;; ++tries) {
        BERTH_CHECK(restart());
        Sha256 hash;
        std::uint64_t size = 0;
        Status kept;
        auto answer = get(target, {}, [&](std::string_view bytes) -> Status {
            size += bytes.size();
            if (size > what.size) kept = fail(Code::Invalid, "a blob is larger than its manifest says");
            if (kept) kept = in_time();
            if (kept) kept = sink(bytes);
            hash.update(bytes);
            return kept;
        });
        if (!kept) return kept;
        const bool cut = answer && answer->status == 200 && size < what.size;
        const bool again = answer ? cut || temporary(*answer) : answer.error().code == Code::Unavailable;
        if (again && tries < kTries) {
            std::this_thread::sleep_for(kFirstPause * tries);
            continue;
        }
        if (!answer) return std::unexpected(std::move(answer).error());
        if (answer->status != 200) return std::unexpected(refusal(*answer, "sha256:" + what.sha256));
        if (size != what.size || hash.hex() != what.sha256)
            return fail(Code::Invalid, "what registry {} sent is not sha256:{}", reference_.registry,
                        what.sha256);
        return {};
    }
}

} // namespace berth::distribution

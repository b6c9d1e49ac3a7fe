#include "backend/e2b/api.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "backend/e2b/again.hpp"
#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "protocol/e2b/listing.hpp"

namespace berth::e2b_client {

namespace {

using namespace std::chrono_literals;
using http_client::HttpAnswer;

constexpr auto kPatience = 120s;    // a sandbox may take its time to be made, or paused
constexpr auto kLookPatience = 20s; // a question is answered at once
constexpr auto kPlanLimit = 3600s;
constexpr std::size_t kLongestMessage = 400;
constexpr std::size_t kMostListed = 100'000;

/// How long to wait before asking again; nothing: that would help nobody.
std::optional<std::chrono::milliseconds> pause_before_next(const http_client::Client::Outcome& got,
                                                           Again again, int tries)
{
    if (got.answer) return pause_asked(*got.answer, tries);
    const bool reset = got.answer.error().code == Code::Unavailable;
    if (!got.sent || (again == Again::Harmless && reset)) return usual_pause(tries);
    return std::nullopt;
}

} // namespace

Error refusal(unsigned status, std::string_view body)
{
    Error out;
    const auto said = e2b::read_message(body);
    out.message = said.empty() ? fmt::format("the E2B server answers {}", status)
                               : "the E2B server says: " + printable(said, kLongestMessage);
    switch (status) {
    case 400:
    case 413: out.code = Code::Invalid; break;
    case 401:
        out.code = Code::Denied;
        out.message = "the E2B server does not take the key in E2B_API_KEY";
        break;
    case 403: out.code = Code::Denied; break;
    case 404: out.code = Code::NotFound; break;
    case 409: out.code = Code::Conflict; break;
    case 429: out.code = Code::Exhausted; break;
    case 405:
    case 501: out.code = Code::Unsupported; break;
    case 507: out.code = Code::Exhausted; break;
    default: out.code = status >= 500 ? Code::Unavailable : Code::Internal;
    }
    return out;
}

Result<HttpAnswer> Api::call(std::string_view method, const std::string& target, std::string body,
                             Again again)
{
    http_client::HttpRequest request{.method = std::string(method),
                                     .target = config_.api.path + target,
                                     .headers = {{"X-API-Key", config_.key}},
                                     .body = std::move(body)};
    if (!request.body.empty()) request.headers["Content-Type"] = "application/json";
    for (int tries = 0;; ++tries) {
        auto got = client_.call(request, {.patience = method == "GET" ? kLookPatience : kPatience});
        const auto pause = pause_before_next(got, again, tries);
        if (pause && tries + 1 < kTries) {
            std::this_thread::sleep_for(*pause);
            continue;
        }
        if (!got.answer) return std::unexpected(std::move(got.answer).error());
        if (got.answer->status >= 300) return std::unexpected(refusal(got.answer->status, got.answer->body));
        return std::move(got.answer);
    }
}

std::chrono::seconds Api::timeout() const
{
    return std::min(config_.timeout, std::chrono::seconds(longest_.load()));
}

Result<e2b::SandboxView> Api::create(e2b::NewSandbox wish)
{
    const auto ask = [&](std::string_view path, e2b::ApiVersion version) {
        wish.timeout = timeout();
        return call("POST", std::string(path), e2b::new_sandbox_body(wish, version), Again::Never);
    };
    const auto both = [&] {
        auto made = ask("/v2/sandboxes", e2b::ApiVersion::V2);
        const bool old = !made && (made.error().code == Code::Unsupported ||
                                   (made.error().code == Code::NotFound &&
                                    made.error().message.find("template") == std::string::npos));
        return old ? ask("/sandboxes", e2b::ApiVersion::V1) : std::move(made);
    };
    auto made = both();
    // Plans bound how long a sandbox may live; what every plan has is an hour.
    if (!made && made.error().code == Code::Invalid && wish.timeout > kPlanLimit &&
        made.error().message.find("imeout") != std::string::npos) {
        longest_ = kPlanLimit.count();
        made = both();
    }
    if (!made) return std::unexpected(std::move(made).error());
    BERTH_TRY(auto view, e2b::read_sandbox(made->body));
    // Without a token everybody who knows its name could use it.
    if (view.token.empty()) {
        (void)kill(view.id);
        return fail(Code::Denied, "the E2B server made a sandbox without an access token");
    }
    return view;
}

Result<std::vector<e2b::SandboxView>> Api::list(const std::map<std::string, std::string>& metadata)
{
    std::vector<e2b::SandboxView> out;
    const std::string filter =
        metadata.empty() ? "" : "metadata=" + percent_encode(e2b::metadata_filter(metadata)) + "&";
    std::string token;
    for (;;) {
        const std::string next = token.empty() ? "" : "&nextToken=" + percent_encode(token);
        BERTH_TRY(const auto answer, call("GET",
                                          fmt::format("/v2/sandboxes?{}state={}&limit=100{}", filter,
                                                      percent_encode("running,paused"), next),
                                          {}, Again::Harmless));
        BERTH_TRY(auto some, e2b::read_sandboxes(answer.body));
        std::ranges::move(some, std::back_inserter(out));
        const auto before = std::exchange(token, answer.header("x-next-token"));
        if (token.empty()) break;
        if (token == before || out.size() > kMostListed)
            return fail(Code::Unavailable, "the E2B server lists sandboxes without end");
    }
    std::ranges::sort(out, [](const auto& a, const auto& b) {
        return a.started != b.started ? a.started > b.started : a.id < b.id;
    });
    return out;
}

Result<e2b::SandboxView> Api::get(const std::string& id)
{
    BERTH_TRY(const auto answer, call("GET", "/sandboxes/" + id, {}, Again::Harmless));
    return e2b::read_sandbox(answer.body);
}

Result<e2b::SandboxView> Api::connect(const std::string& id)
{
    auto answer =
        call("POST", fmt::format("/v2/sandboxes/{}/connect", id), e2b::time_body(timeout()), Again::Harmless);
    // An older server has no such path; one that has it knows no such sandbox by the other either.
    if (!answer && (answer.error().code == Code::Unsupported || answer.error().code == Code::NotFound))
        answer = call("POST", fmt::format("/sandboxes/{}/connect", id), e2b::time_body(timeout()),
                      Again::Harmless);
    if (!answer) return std::unexpected(std::move(answer).error());
    return e2b::read_sandbox(answer->body);
}

Status Api::pause(const std::string& id, bool keep_memory)
{
    auto done =
        call("POST", fmt::format("/sandboxes/{}/pause", id), e2b::memory_body(keep_memory), Again::Harmless);
    if (!done && done.error().code != Code::Conflict) return std::unexpected(std::move(done).error());
    return {};
}

Status Api::set_timeout(const std::string& id, std::chrono::seconds time)
{
    const auto bounded = std::clamp<std::chrono::seconds>(time, 1s, std::chrono::seconds(longest_.load()));
    auto done =
        call("POST", fmt::format("/sandboxes/{}/timeout", id), e2b::time_body(bounded), Again::Harmless);
    if (!done && done.error().code == Code::Invalid && bounded > kPlanLimit) {
        longest_ = kPlanLimit.count();
        done = call("POST", fmt::format("/sandboxes/{}/timeout", id), e2b::time_body(kPlanLimit),
                    Again::Harmless);
    }
    if (!done) return std::unexpected(std::move(done).error());
    return {};
}

Status Api::kill(const std::string& id)
{
    const auto done = call("DELETE", "/sandboxes/" + id, {}, Again::Harmless);
    if (!done && done.error().code != Code::NotFound) return std::unexpected(done.error());
    return {};
}

Result<std::string> Api::snapshot(const std::string& id, const std::string& name)
{
    BERTH_TRY(const auto answer,
              call("POST", fmt::format("/sandboxes/{}/snapshots", id), e2b::name_body(name), Again::Never));
    return e2b::read_snapshot(answer.body);
}

Status Api::remove_template(const std::string& id)
{
    const auto done = call("DELETE", "/templates/" + percent_encode(id), {}, Again::Harmless);
    if (!done && done.error().code != Code::NotFound) return std::unexpected(done.error());
    return {};
}

} // namespace berth::e2b_client

// The daemon of a sandbox is as hostile as what runs in it: answers are bounded, envelopes are bounded, and a
// stream that says nothing for too long is cut.

#include "backend/e2b/envd.hpp"

#include <thread>

#include "backend/e2b/again.hpp"
#include "backend/e2b/api.hpp"
#include "base/encoding.hpp"
#include "base/strings.hpp"
#include "protocol/connect/envelope.hpp"

namespace berth::e2b_client {

namespace {

using namespace std::chrono_literals;
using http_client::HttpAnswer;
using http_client::HttpRequest;

constexpr auto kPing = 50s;
constexpr auto kSilence = 2 * kPing + 20s; // without even a ping
constexpr std::size_t kEnvelope = std::size_t{4} << 20;
constexpr auto kUploadPatience = 120s;
constexpr auto kForever = 24h;
constexpr auto kSlice = 20ms; // of a wait that may be given up

Error failed(const HttpAnswer& answer)
{
    // The proxy's own words: the sandbox is not there, or does not run.
    if (answer.status == kNotRunning)
        return {.code = Code::Unavailable,
                .message = "the sandbox does not run",
                .sys = std::error_code(ENOTCONN, std::generic_category()),
                .trail = {}};
    auto failure = connect::read_failure(static_cast<int>(answer.status), answer.body);
    failure.message = printable(failure.message, 400);
    return connect::error_of(failure);
}

} // namespace

namespace {

/// Busy, and it says so before it has done anything: waits, and true when it may be asked again. A daemon's
/// own "resource exhausted" looks the same but for the header.
bool may_ask_again(const HttpAnswer& answer, int tries, const Cord* cord)
{
    if (answer.status != 429 || answer.header("retry-after").empty() || tries + 1 >= kTries) return false;
    const auto pause = pause_asked(answer, tries);
    if (!pause) return false;
    for (const auto end = std::chrono::steady_clock::now() + *pause; std::chrono::steady_clock::now() < end;
         std::this_thread::sleep_for(kSlice))
        if (cord != nullptr && cord->pulled()) return false;
    return true;
}

} // namespace

bool not_running(const Error& error) { return error.sys.value() == ENOTCONN; }

void Cord::pull()
{
    const std::scoped_lock lock(mutex_);
    pulled_ = true;
    if (wire_ != nullptr) wire_->hang_up();
}

bool Cord::pulled() const
{
    const std::scoped_lock lock(mutex_);
    return pulled_;
}

bool Cord::hold(const http_client::Wire* wire)
{
    const std::scoped_lock lock(mutex_);
    wire_ = wire;
    return !pulled_;
}

Result<Session> Envd::session(const std::string& id, const std::string& token, const std::string& domain)
{
    BERTH_TRY(auto origin, envd_origin(config_, id, domain));
    Session out{.id = id, .token = token, .user = {}, .workdir = {}, .client = {}, .path = origin.path};
    const std::scoped_lock lock(mutex_);
    auto& client = clients_[origin.place.text()];
    if (!client) client = std::make_shared<http_client::Client>(std::move(origin.place));
    out.client = client;
    return out;
}

std::map<std::string, std::string> Envd::headers(const Session& session, const std::string& user) const
{
    std::map<std::string, std::string> out{
        {"E2b-Sandbox-Id", session.id}, {"E2b-Sandbox-Port", "49983"}, {"Connect-Protocol-Version", "1"}};
    if (!session.token.empty()) out["X-Access-Token"] = session.token;
    const std::string& who = user.empty() ? session.user : user;
    if (!who.empty()) out["Authorization"] = "Basic " + base64_encode(who + ":");
    return out;
}

Result<std::string> Envd::unary(const Session& session, std::string_view method, const std::string& message,
                                const std::string& user)
{
    HttpRequest request{.method = "POST",
                        .target = fmt::format("{}/{}", session.path, method),
                        .headers = headers(session, user),
                        .body = message};
    request.headers["Content-Type"] = "application/json";
    for (int tries = 0;; ++tries) {
        auto got = session.client->call(request);
        if (!got.answer) return std::unexpected(std::move(got.answer).error());
        if (got.answer->status == 200) return std::move(got.answer->body);
        if (!may_ask_again(*got.answer, tries, nullptr)) return std::unexpected(failed(*got.answer));
    }
}

Result<std::string> Envd::patient(const Session& session, std::string_view method, const std::string& message,
                                  Cord& cord)
{
    HttpRequest request{.method = "POST",
                        .target = fmt::format("{}/{}", session.path, method),
                        .headers = headers(session, {}),
                        .body = message};
    request.headers["Content-Type"] = "application/json";
    for (int tries = 0;; ++tries) {
        BERTH_TRY(auto wire, session.client->connect());
        if (!cord.hold(&wire)) return fail(Code::Unavailable, "the call was given up");
        auto answer =
            exchange(wire, session.client->place().authority(), request, {.patience = kForever}, {});
        (void)cord.hold(nullptr);
        if (!answer) return std::unexpected(std::move(answer).error());
        if (answer->status == 200) return std::move(answer->body);
        if (!may_ask_again(*answer, tries, &cord)) return std::unexpected(failed(*answer));
    }
}

StreamEnd Envd::stream(const Session& session, std::string_view method, const std::string& message,
                       const std::string& user, const OnMessage& on_message, Cord& cord,
                       std::optional<std::chrono::milliseconds> time)
{
    StreamEnd out;
    HttpRequest request{.method = "POST",
                        .target = fmt::format("{}/{}", session.path, method),
                        .headers = headers(session, user),
                        .body = connect::encode(message)};
    request.headers["Content-Type"] = "application/connect+json";
    request.headers["Keepalive-Ping-Interval"] = std::to_string(kPing.count());
    if (time) request.headers["Connect-Timeout-Ms"] = std::to_string(time->count());
    connect::EnvelopeReader reader(kEnvelope);
    const ByteSink sink = [&](std::string_view bytes) -> Status {
        if (out.told) return fail(Code::Invalid, "the stream goes on after its end");
        reader.feed(bytes);
        for (;;) {
            BERTH_TRY(const auto envelope, reader.next());
            if (!envelope) return {};
            if (envelope->last()) {
                BERTH_TRY(out.failure, connect::read_end(envelope->payload));
                out.told = true;
                return {};
            }
            BERTH_CHECK(on_message(envelope->payload));
        }
    };
    Result<HttpAnswer> answer = fail(Code::Internal, "nobody was asked");
    for (int tries = 0;; ++tries) {
        auto wire = session.client->connect();
        if (!wire) {
            out.cut = std::move(wire).error();
            return out;
        }
        if (!cord.hold(&*wire)) {
            out.cut = fail(Code::Unavailable, "the call was given up").error();
            return out;
        }
        answer = exchange(*wire, session.client->place().authority(), request, {.patience = kSilence}, sink);
        (void)cord.hold(nullptr);
        if (!answer || !may_ask_again(*answer, tries, &cord)) break;
    }
    if (out.told) return out;
    if (!answer)
        out.cut = std::move(answer).error();
    else if (answer->status != 200)
        out.cut = failed(*answer);
    else
        out.cut = fail(Code::Unavailable, "the stream ended without an end").error();
    return out;
}

Status Envd::upload(const Session& session, const std::string& path, const std::string& user,
                    const ByteSource& source)
{
    const std::string& who = user.empty() ? session.user : user;
    HttpRequest request{.method = "POST",
                        .target = fmt::format("{}/files?path={}&username={}", session.path,
                                              percent_encode(path), percent_encode(who)),
                        .headers = headers(session, user),
                        .source = source};
    request.headers["Content-Type"] = "application/octet-stream";
    auto got = session.client->call(std::move(request), {.patience = kUploadPatience});
    if (!got.answer) return std::unexpected(std::move(got.answer).error());
    if (got.answer->status == kNotRunning) return std::unexpected(failed(*got.answer));
    if (got.answer->status != 200) return std::unexpected(refusal(got.answer->status, got.answer->body));
    return {};
}

} // namespace berth::e2b_client

// Requests to the outside for a client. They carry no sandbox, so what holds them is the operator's list:
// asked again for each redirect, and for the address that a name led to, which is then the one that is
// dialled.
#include "server/codex/web.hpp"

#include <algorithm>

#include "base/strings.hpp"

namespace berth::codex {

namespace {

using namespace std::chrono_literals;

constexpr auto kConnect = 10s;
constexpr auto kDefault = 60s;   ///< of a whole answer, where the client names no time
constexpr auto kLongest = 10min; ///< of a whole answer, whatever it names
constexpr auto kStream = 1h;     ///< of an answer in pieces
constexpr auto kSilence = 5min;  ///< between its pieces
constexpr int kRedirects = 10;
constexpr std::uint64_t kStreamed = std::uint64_t{1} << 30;

bool is_redirect(unsigned status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/// `to` as seen from `from`: another server, another path, or one beside it.
std::string resolve(const std::string& server, const std::string& path, const std::string& to)
{
    if (to.find(':') < to.find_first_of("/?#")) return to; // another scheme is refused later
    if (to.starts_with("//")) return server.substr(0, server.find("//")) + to;
    if (to.starts_with('/')) return server + to;
    const std::string plain = path.substr(0, path.find('?'));
    if (to.starts_with('?')) return server + plain + to;
    return server + plain.substr(0, plain.rfind('/') + 1) + to;
}

} // namespace

WebCall::WebCall(const Destinations& allowed, HttpParams params)
    : allowed_(allowed), params_(std::move(params))
{
    const auto most =
        params_.stream ? std::chrono::milliseconds(kStream) : std::chrono::milliseconds(kLongest);
    const auto none = params_.stream ? most : std::chrono::milliseconds(kDefault);
    until_ = system_clock().steady() + std::min(params_.timeout.value_or(none), most);
}

Result<WebCall::Target> WebCall::parse(const std::string& url)
{
    const std::string whole = url.substr(0, url.find('#'));
    const auto scheme = whole.find("://");
    if (scheme == std::string::npos || (!whole.starts_with("http://") && !whole.starts_with("https://")))
        return fail(Code::Invalid, "'{}' is no http or https address", printable(url, 100));
    const auto end = whole.find_first_of("/?", scheme + 3);
    BERTH_TRY(auto origin, http_client::parse_url(whole.substr(0, end)));
    Target out{.place = std::move(origin.place), .path = end == std::string::npos ? "/" : whole.substr(end)};
    if (!out.path.starts_with('/')) out.path.insert(0, "/");
    if (!std::ranges::all_of(out.path, [](char c) { return c > ' ' && c < 0x7f; }))
        return fail(Code::Invalid, "'{}' has bytes that must be percent-encoded", printable(url, 100));
    out.place.who = printable(out.place.host, 100);
    return out;
}

Result<std::chrono::milliseconds> WebCall::patience() const
{
    if (unwanted_) return fail(Code::Unavailable, "nobody waits for it any more");
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until_ - system_clock().steady());
    if (left <= 0ms) return fail(Code::DeadlineExceeded, "the time for the request is over");
    return std::min<std::chrono::milliseconds>(left, kSilence);
}

Status WebCall::ask(const Target& target)
{
    BERTH_TRY(const auto addresses, allowed_.find(target.place.host, target.place.port));
    Status tried = fail(Code::Unavailable, "{} has no address", target.place.who);
    for (const auto& address : addresses) {
        BERTH_TRY(const auto left, patience());
        auto place = target.place;
        place.address = address;
        auto wire = http_client::Wire::connect(
            place, system_clock().steady() + std::min<std::chrono::milliseconds>(left, kConnect));
        if (!wire) {
            tried = std::unexpected(std::move(wire).error());
            continue;
        }
        const std::lock_guard lock(mutex_);
        exchange_.reset();
        wire_.emplace(*std::move(wire));
        tried = {};
        break;
    }
    BERTH_CHECK(tried);
    http_client::HttpRequest request{.method = params_.method, .target = target.path};
    for (const auto& [name, value] : params_.headers) {
        auto& all = request.headers[name];
        all += (all.empty() ? "" : name == "cookie" ? "; " : ", ") + value;
    }
    request.body = params_.body;
    BERTH_TRY(const auto left, patience());
    BERTH_TRY(auto begun, http_client::Exchange::begin(*wire_, target.place.authority(), request, left));
    exchange_.emplace(std::move(begun));
    return {};
}

/// Where the answer points, and what is left of the request for it.
Status WebCall::redirect(Target& target)
{
    const unsigned status = head().status;
    BERTH_TRY(auto next, parse(resolve(target.place.text(), target.path, head().header("location"))));
    const bool same = next.place.host == target.place.host && next.place.port == target.place.port &&
                      next.place.tls == target.place.tls;
    if (!same)
        std::erase_if(params_.headers, [](const auto& header) {
            return header.first == "authorization" || header.first == "cookie";
        });
    const bool turned = status == 303 || (status <= 302 && params_.method == "POST");
    if (turned && params_.method != "HEAD") {
        params_.method = "GET";
        params_.body.clear();
        std::erase_if(params_.headers,
                      [](const auto& header) { return header.first.starts_with("content-"); });
    }
    target = std::move(next);
    return {};
}

Status WebCall::begin()
{
    BERTH_TRY(auto target, parse(params_.url));
    for (int hop = 0;; ++hop) {
        BERTH_CHECK(ask(target));
        if (params_.redirect == HttpParams::Redirect::Stop || !is_redirect(head().status) ||
            head().header("location").empty())
            return {};
        if (hop == kRedirects) return fail(Code::Unavailable, "more than {} redirects", kRedirects);
        if (auto led = redirect(target); !led) // the first was good: what it leads to is the server's fault
            return fail(Code::Unavailable, "a redirect: {}", led.error().message);
    }
}

Result<std::string> WebCall::next()
{
    BERTH_TRY(const auto left, patience());
    BERTH_TRY(const auto piece, exchange_->next(left));
    taken_ += piece.size();
    if (taken_ > kStreamed) return fail(Code::Exhausted, "the answer is larger than {} bytes", kStreamed);
    return std::string(piece);
}

void WebCall::hang_up()
{
    unwanted_ = true;
    const std::lock_guard lock(mutex_);
    if (wire_) wire_->hang_up();
}

Web::Web(std::vector<Destination> allowed) : allowed_(std::move(allowed)), pool_(kCalls) {}

bool Web::enter() noexcept
{
    if (calls_ >= kCalls) return false;
    ++calls_;
    return true;
}

} // namespace berth::codex

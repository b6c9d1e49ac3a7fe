#include "server/http/exchange.hpp"

#include <array>

#include <boost/asio/this_coro.hpp>

namespace berth::http {

namespace {

using namespace std::chrono_literals;

constexpr auto kWritePatience = 300s; // a client that does not read
constexpr std::size_t kPiece = std::size_t{64} << 10;

SteadyTime now() { return system_clock().steady(); }

} // namespace

Exchange::Exchange(Channel& channel, MessageParser& parser, std::string& buffer, RequestHead head)
    : channel_(channel), parser_(parser), buffer_(buffer), head_(std::move(head)),
      continue_asked_(same_word(head_.value("expect"), "100-continue")), keep_alive_(head_.keep_alive)
{
}

Task<Status> Exchange::invite_body()
{
    if (!continue_asked_ || begun_) co_return Status{};
    continue_asked_ = false;
    co_return co_await channel_.write("HTTP/1.1 100 Continue\r\n\r\n", now() + kWritePatience);
}

/// Reads on behind what is there.
Task<Status> Exchange::fill_buffer()
{
    const auto old = buffer_.size();
    const auto begun = now();
    buffer_.resize(old + kPiece);
    auto n = co_await channel_.read_some(std::span(buffer_).subspan(old), pace_.until(begun));
    buffer_.resize(old + n.value_or(0));
    if (!n) co_return std::unexpected(std::move(n).error());
    if (*n == 0) co_return fail(Code::Unavailable, "the request was cut off");
    pace_.came(*n, now() - begun);
    co_return Status{};
}

/// Feeds the parser; false at the end of the message.
Task<Result<bool>> Exchange::read_more()
{
    if (parser_.done()) co_return false;
    BERTH_CO_CHECK(co_await invite_body());
    if (buffer_.empty()) BERTH_CO_CHECK(co_await fill_buffer());
    BERTH_CO_TRY(const auto used, parser_.feed(buffer_));
    buffer_.erase(0, used);
    // A chunk's head that is not complete.
    if (used == 0 && !parser_.done()) {
        if (buffer_.size() > kHeadLimit) co_return fail(Code::Invalid, "a chunk's head without end");
        BERTH_CO_CHECK(co_await fill_buffer());
    }
    co_return true;
}

Task<Result<std::string>> Exchange::read()
{
    while (!parser_.has_body()) {
        BERTH_CO_TRY(const bool more, co_await read_more());
        if (!more) break;
    }
    co_return parser_.take_body();
}

Task<Result<std::string>> Exchange::body(std::size_t limit)
{
    std::string out;
    const auto too_large = [&] {
        too_large_ = true;
        return fail(Code::Exhausted, "the body is larger than {} bytes", limit);
    };
    if (head_.length && *head_.length > limit) co_return too_large();
    if (parser_.done()) { // it came with its head
        out = parser_.take_body();
        if (out.size() > limit) co_return too_large();
        co_return out;
    }
    for (;;) {
        BERTH_CO_TRY(auto piece, co_await read());
        if (piece.empty()) co_return out;
        if (out.empty())
            out = std::move(piece);
        else
            out += piece;
        if (out.size() > limit) co_return too_large();
    }
}

void Exchange::add_header(std::string name, std::string value)
{
    extra_.emplace_back(std::move(name), std::move(value));
}

Task<Status> Exchange::send(Response response)
{
    begun_ = true;
    status_ = response.status;
    // What of the body is still to come would be read as the next request.
    if (!parser_.done()) keep_alive_ = false;
    for (auto& one : extra_) response.headers.push_back(one);
    // Whoever asked for too much may come again, and is told when, in whatever protocol.
    if (response.status == 429 && find_header(response.headers, "retry-after") == nullptr)
        response.with("Retry-After", "1");
    response.headers.emplace_back("X-Request-Id", head_.id);
    const bool bare = response.status == 204 || response.status == 304;
    std::string out = render_head(response.status, response.headers, bare ? Framing::None : Framing::Length,
                                  response.body.size(), keep_alive_);
    if (!bare && head_.method != "HEAD") out += response.body;
    sent_ += response.body.size();
    auto done = co_await channel_.write(out, now() + kWritePatience);
    finished_ = done.has_value();
    co_return done;
}

std::string Exchange::begin_head(int status, Pairs headers, std::optional<std::uint64_t> length)
{
    begun_ = true;
    status_ = status;
    if (!parser_.done() && !head_.chunked && head_.length.value_or(0) != 0) keep_alive_ = false;
    chunked_ = !length;
    bodyless_ = head_.method == "HEAD" || status == 101;
    for (auto& one : extra_) headers.push_back(one);
    headers.emplace_back("X-Request-Id", head_.id);
    const auto framing = status == 101 ? Framing::None : length ? Framing::Length : Framing::Chunked;
    return render_head(status, headers, framing, length.value_or(0), keep_alive_);
}

Task<Status> Exchange::begin(int status, Pairs headers, std::optional<std::uint64_t> length)
{
    const std::string out = begin_head(status, std::move(headers), length);
    co_return co_await channel_.write(out, now() + kWritePatience);
}

void Exchange::begin_with_first(int status, Pairs headers)
{
    unsent_ = begin_head(status, std::move(headers), std::nullopt);
}

Task<Status> Exchange::write(std::string_view bytes)
{
    if (bytes.empty() || bodyless_) co_return Status{};
    sent_ += bytes.size();
    if (!chunked_) co_return co_await channel_.write(bytes, now() + kWritePatience);
    const std::string before = fmt::format("{}{:x}\r\n", std::exchange(unsent_, {}), bytes.size());
    const std::array<std::string_view, 3> parts{before, bytes, "\r\n"};
    co_return co_await channel_.write_parts(parts, now() + kWritePatience);
}

Task<Status> Exchange::finish() { return finish({}); }

Task<Status> Exchange::finish(std::string_view last)
{
    if (!parser_.done()) keep_alive_ = false;
    if (chunked_) {
        std::string before = std::exchange(unsent_, {});
        if (bodyless_) last = {};
        if (!last.empty()) before += fmt::format("{:x}\r\n", last.size());
        const std::string_view end = bodyless_ ? "" : last.empty() ? "0\r\n\r\n" : "\r\n0\r\n\r\n";
        sent_ += last.size();
        const std::array<std::string_view, 3> parts{before, last, end};
        auto done = co_await channel_.write_parts(parts, now() + kWritePatience);
        if (!done) co_return done;
    }
    finished_ = true;
    co_return Status{};
}

void Exchange::drop() noexcept
{
    dropped_ = true;
    channel_.reset();
}

Channel& Exchange::take_over(std::string& early)
{
    keep_alive_ = false;
    begun_ = true;
    if (status_ == 0) status_ = 101;
    early = std::exchange(buffer_, {});
    return channel_;
}

} // namespace berth::http

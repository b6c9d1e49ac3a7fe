// HTTP/1.1 as a client, over a connection of our own: Beast parses, the waiting is ours. libcurl is not
// used here because the program is linked statically and Debian's libcurl cannot be; and because uploads
// that stream from a source would need a second thread with it.

#include "http_client/http.hpp"

#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>

#include <array>
#include <utility>

namespace berth::http_client {

namespace {

namespace http = boost::beast::http;

constexpr std::size_t kPiece = std::size_t{64} << 10;
constexpr std::uint32_t kLargestHead = 64 << 10;
constexpr std::size_t kLargestRefusal = std::size_t{64} << 10;

std::string head_of(std::string_view host, const HttpRequest& request)
{
    std::string out = fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\nConnection: {}\r\n", request.method,
                                  request.target, host, request.keep ? "keep-alive" : "close");
    if (!request.headers.contains("user-agent")) out += "User-Agent: berth\r\n";
    for (const auto& [name, value] : request.headers) out += fmt::format("{}: {}\r\n", name, value);
    if (request.source && request.length)
        out += fmt::format("Content-Length: {}\r\n", *request.length);
    else if (request.source)
        out += "Transfer-Encoding: chunked\r\n";
    else if (!request.body.empty() || request.method != "GET")
        out += fmt::format("Content-Length: {}\r\n", request.body.size());
    return out + "\r\n";
}

} // namespace

/// Reads one answer.
class Exchange::Reading {
public:
    explicit Reading(Wire& wire, bool has_body) : wire_(wire), has_body_(has_body)
    {
        parser_.header_limit(kLargestHead);
        parser_.body_limit(boost::none);
        parser_.on_chunk_header(begin_chunk_);
    }

    Result<HttpAnswer> head(std::chrono::milliseconds patience)
    {
        while (!parser_.is_header_done()) BERTH_CHECK(step(patience));
        HttpAnswer answer;
        answer.status = parser_.get().result_int();
        for (const auto& field : parser_.get()) {
            std::string name(field.name_string());
            for (char& byte : name)
                if (byte >= 'A' && byte <= 'Z') byte = static_cast<char>(byte - 'A' + 'a');
            answer.headers[name] = std::string(field.value());
            answer.fields.emplace_back(std::move(name), std::string(field.value()));
        }
        return answer;
    }

    /// Empty: that was all.
    Result<std::string_view> next(std::chrono::milliseconds patience)
    {
        while (has_body_ && !parser_.is_done()) {
            auto& body = parser_.get().body();
            body.data = piece_.data();
            body.size = piece_.size();
            BERTH_CHECK(step(patience));
            const std::string_view came(piece_.data(), piece_.size() - body.size);
            if (parser_.chunked()) chunk_ -= came.size();
            if (!came.empty()) return came;
        }
        return std::string_view{};
    }

    [[nodiscard]] bool reusable()
    {
        return has_body_ && parser_.is_done() && pending_.empty() && parser_.get().keep_alive();
    }

private:
    /// Parses what is there, and reads on where that is not enough.
    Status step(std::chrono::milliseconds patience)
    {
        boost::beast::error_code error;
        // Beast asserts that the last chunk comes in no less than this, and every chunk is followed by as
        // much.
        const bool early = parser_.is_header_done() && parser_.chunked() && chunk_ == 0 &&
                           pending_.size() < std::string_view("0\r\n\r\n").size();
        if (!pending_.empty() && !early) {
            const auto used = parser_.put(boost::asio::buffer(pending_), error);
            pending_.erase(0, used);
            if (error == http::error::need_buffer) return {};
            if (error && error != http::error::need_more)
                return fail(Code::Unavailable, "the answer is not HTTP: {}", error.message());
            if (used > 0) return {};
        }
        const std::size_t before = pending_.size();
        pending_.resize(before + kPiece);
        auto n = wire_.read(pending_.data() + before, kPiece, system_clock().steady() + patience);
        pending_.resize(before + n.value_or(0));
        if (!n) return std::unexpected(std::move(n).error());
        if (*n > 0) return {};
        if (!parser_.got_some()) return fail(Code::Unavailable, "the connection ended without an answer");
        parser_.put_eof(error);
        if (error) return fail(Code::Unavailable, "the answer was cut off");
        return {};
    }

    Wire& wire_;
    bool has_body_;
    http::response_parser<http::buffer_body> parser_;
    std::uint64_t chunk_ = 0; ///< what is still to come of the chunk that has begun
    std::function<void(std::uint64_t, boost::beast::string_view, boost::beast::error_code&)> begin_chunk_ =
        [this](std::uint64_t size, boost::beast::string_view, boost::beast::error_code&) { chunk_ = size; };
    std::string pending_;
    std::array<char, kPiece> piece_{};
};

namespace {

Status send_source(Wire& wire, const HttpRequest& request, std::chrono::milliseconds patience)
{
    for (std::uint64_t given = 0;;) {
        // A server that has refused does not read on.
        if (wire.readable()) return {};
        BERTH_TRY(const auto piece, request.source());
        const auto until = system_clock().steady() + patience;
        given += piece.size();
        if (request.length) {
            if (given > *request.length || (piece.empty() && given != *request.length))
                return fail(Code::Internal, "{} bytes were promised, {} came", *request.length, given);
            if (piece.empty()) return {};
            BERTH_CHECK(wire.write(piece, until));
            continue;
        }
        BERTH_CHECK(wire.write(fmt::format("{:x}\r\n", piece.size()), until));
        if (piece.empty()) return wire.write("\r\n", until);
        BERTH_CHECK(wire.write(piece, until));
        BERTH_CHECK(wire.write("\r\n", until));
    }
}

} // namespace

Exchange::Exchange() = default;
Exchange::Exchange(Exchange&&) noexcept = default;
Exchange& Exchange::operator=(Exchange&&) noexcept = default;
Exchange::~Exchange() = default;

Result<Exchange> Exchange::begin(Wire& wire, std::string_view host, const HttpRequest& request,
                                 std::chrono::milliseconds patience)
{
    const auto until = system_clock().steady() + patience;
    BERTH_CHECK(wire.write(head_of(host, request) + (request.source ? std::string{} : request.body), until));
    Status sent;
    if (request.source) sent = send_source(wire, request, patience);
    // A refusal is worth more than the word that it closed the pipe.
    if (!sent && sent.error().sys.value() != EPIPE && sent.error().sys.value() != ECONNRESET)
        return std::unexpected(std::move(sent).error());
    Exchange out;
    out.reading_ = std::make_unique<Reading>(wire, request.method != "HEAD");
    BERTH_TRY(out.head_, out.reading_->head(patience));
    return out;
}

Result<std::string_view> Exchange::next(std::chrono::milliseconds patience)
{
    return reading_->next(patience);
}

Result<HttpAnswer> exchange(Wire& wire, std::string_view host, const HttpRequest& request,
                            const HttpLimits& limits, const ByteSink& sink)
{
    BERTH_TRY(auto begun, Exchange::begin(wire, host, request, limits.patience));
    HttpAnswer answer = std::move(begun.head_);
    const bool good = answer.status < 300;
    for (;;) {
        BERTH_TRY(const auto came, begun.next(limits.patience));
        if (came.empty()) break;
        if (sink && good) {
            BERTH_CHECK(sink(came));
        } else if (good) {
            if (answer.body.size() + came.size() > limits.body.count)
                return fail(Code::Exhausted, "the answer is larger than {} bytes", limits.body.count);
            answer.body += came;
        } else if (answer.body.size() < kLargestRefusal) {
            answer.body += came.substr(0, kLargestRefusal - answer.body.size());
        }
    }
    answer.reusable = begun.reading_->reusable();
    return answer;
}

std::string url_encode(std::string_view text)
{
    std::string out;
    for (const char c : text) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                           c == '-' || c == '_' || c == '.' || c == '~';
        if (plain)
            out += c;
        else
            out += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
    return out;
}

} // namespace berth::http_client

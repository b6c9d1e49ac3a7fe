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
    std::string out =
        fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\nConnection: {}\r\nUser-Agent: berth\r\n", request.method,
                    request.target, host, request.keep ? "keep-alive" : "close");
    for (const auto& [name, value] : request.headers) out += fmt::format("{}: {}\r\n", name, value);
    if (request.source && request.length)
        out += fmt::format("Content-Length: {}\r\n", *request.length);
    else if (request.source)
        out += "Transfer-Encoding: chunked\r\n";
    else if (!request.body.empty() || request.method != "GET")
        out += fmt::format("Content-Length: {}\r\n", request.body.size());
    return out + "\r\n";
}

/// Reads one answer.
class Reading {
public:
    Reading(Wire& wire, const HttpLimits& limits, const ByteSink& sink)
        : wire_(wire), limits_(limits), sink_(sink)
    {
        parser_.header_limit(kLargestHead);
        parser_.body_limit(boost::none);
    }

    Result<HttpAnswer> run(bool has_body)
    {
        while (!parser_.is_header_done()) BERTH_CHECK(step());
        HttpAnswer answer;
        answer.status = parser_.get().result_int();
        for (const auto& field : parser_.get()) {
            std::string name(field.name_string());
            for (char& byte : name)
                if (byte >= 'A' && byte <= 'Z') byte = static_cast<char>(byte - 'A' + 'a');
            answer.headers[name] = std::string(field.value());
        }
        if (!has_body) return answer;
        const bool good = answer.status < 300;
        while (!parser_.is_done()) {
            auto& body = parser_.get().body();
            body.data = piece_.data();
            body.size = piece_.size();
            BERTH_CHECK(step());
            const std::string_view came(piece_.data(), piece_.size() - body.size);
            if (came.empty()) continue;
            if (sink_ && good) {
                BERTH_CHECK(sink_(came));
            } else if (good) {
                if (answer.body.size() + came.size() > limits_.body.count)
                    return fail(Code::Exhausted, "the answer is larger than {} bytes", limits_.body.count);
                answer.body += came;
            } else if (answer.body.size() < kLargestRefusal) {
                answer.body += came.substr(0, kLargestRefusal - answer.body.size());
            }
        }
        answer.reusable = parser_.is_done() && pending_.empty() && parser_.get().keep_alive();
        return answer;
    }

private:
    /// Parses what is there, and reads on where that is not enough.
    Status step()
    {
        boost::beast::error_code error;
        if (!pending_.empty()) {
            const auto used = parser_.put(boost::asio::buffer(pending_), error);
            pending_.erase(0, used);
            if (error == http::error::need_buffer) return {};
            if (error && error != http::error::need_more)
                return fail(Code::Unavailable, "the answer is not HTTP: {}", error.message());
            if (used > 0) return {};
        }
        const std::size_t before = pending_.size();
        pending_.resize(before + kPiece);
        auto n = wire_.read(pending_.data() + before, kPiece, system_clock().steady() + limits_.patience);
        pending_.resize(before + n.value_or(0));
        if (!n) return std::unexpected(std::move(n).error());
        if (*n > 0) return {};
        if (!parser_.got_some()) return fail(Code::Unavailable, "the connection ended without an answer");
        parser_.put_eof(error);
        if (error) return fail(Code::Unavailable, "the answer was cut off");
        return {};
    }

    Wire& wire_;
    const HttpLimits& limits_;
    const ByteSink& sink_;
    http::response_parser<http::buffer_body> parser_;
    std::string pending_;
    std::array<char, kPiece> piece_{};
};

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

Result<HttpAnswer> exchange(Wire& wire, std::string_view host, const HttpRequest& request,
                            const HttpLimits& limits, const ByteSink& sink)
{
    const auto until = system_clock().steady() + limits.patience;
    BERTH_CHECK(wire.write(head_of(host, request) + (request.source ? std::string{} : request.body), until));
    Status sent;
    if (request.source) sent = send_source(wire, request, limits.patience);
    // A refusal is worth more than the word that it closed the pipe.
    if (!sent && sent.error().sys.value() != EPIPE && sent.error().sys.value() != ECONNRESET)
        return std::unexpected(std::move(sent).error());
    auto reading = std::make_unique<Reading>(wire, limits, sink);
    return reading->run(request.method != "HEAD");
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

#include "server/http/parser.hpp"

#include <tuple>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/basic_parser.hpp>

namespace berth::http {

namespace beast = boost::beast::http;
using ErrorCode = boost::beast::error_code;

constexpr std::size_t kLastChunk = 5; ///< "0\r\n\r\n"

class MessageParser::Machine {
public:
    virtual ~Machine() = default;
    virtual std::size_t put(std::string_view bytes, ErrorCode& error) = 0;
    virtual void put_eof(ErrorCode& error) = 0;
    [[nodiscard]] virtual bool head_done() const = 0;
    [[nodiscard]] virtual bool done() const = 0;
    [[nodiscard]] virtual bool keep_alive() const = 0;
    [[nodiscard]] virtual bool chunked() const = 0;
    [[nodiscard]] virtual bool upgrade() const = 0;
    [[nodiscard]] virtual std::optional<std::uint64_t> length() const = 0;

    std::string method, target;
    int status = 0;
    Pairs headers;
    std::string body;
    std::uint64_t chunk = 0; ///< what is still to come of the chunk that has begun
};

template <bool request>
class MessageParser::Typed final : public MessageParser::Machine, public beast::basic_parser<request> {
    using Base = beast::basic_parser<request>;
    using View = boost::beast::string_view;

public:
    explicit Typed(bool no_body)
    {
        this->eager(true);
        this->header_limit(kHeadLimit);
        this->body_limit(boost::none); // whoever reads the body has a limit
        if (no_body) this->skip(true);
        headers.reserve(16);
    }
    std::size_t put(std::string_view bytes, ErrorCode& error) override
    {
        return Base::put(boost::asio::const_buffer(bytes.data(), bytes.size()), error);
    }
    void put_eof(ErrorCode& error) override { Base::put_eof(error); }
    [[nodiscard]] bool head_done() const override { return this->is_header_done(); }
    [[nodiscard]] bool done() const override { return this->is_done(); }
    [[nodiscard]] bool keep_alive() const override { return Base::keep_alive(); }
    [[nodiscard]] bool chunked() const override { return Base::chunked(); }
    [[nodiscard]] bool upgrade() const override { return Base::upgrade(); }
    [[nodiscard]] std::optional<std::uint64_t> length() const override
    {
        const auto told = this->content_length();
        return told ? std::optional<std::uint64_t>(*told) : std::nullopt;
    }

private:
    void on_request_impl(beast::verb, View name, View where, int version, ErrorCode&) override
    {
        version_ = version;
        method.assign(name.data(), name.size());
        target.assign(where.data(), where.size());
    }
    void on_response_impl(int code, View, int, ErrorCode&) override { status = code; }
    void on_field_impl(beast::field, View name, View value, ErrorCode&) override
    {
        headers.emplace_back(std::piecewise_construct, std::forward_as_tuple(name.data(), name.size()),
                             std::forward_as_tuple(value.data(), value.size()));
    }
    /// Another reader might see a body where we see none, and the next request in it.
    void on_header_impl(ErrorCode& error) override
    {
        if constexpr (request) {
            std::size_t codings = 0;
            for (const auto& [name, value] : headers)
                if (same_word(name, "transfer-encoding"))
                    codings += same_word(value, "chunked") && version_ > 10 ? 1 : 2;
            if (codings > 1) error = beast::error::bad_transfer_encoding;
        }
    }
    void on_body_init_impl(const boost::optional<std::uint64_t>&, ErrorCode&) override {}
    std::size_t on_body_impl(View bytes, ErrorCode&) override
    {
        body.append(bytes.data(), bytes.size());
        return bytes.size();
    }
    void on_chunk_header_impl(std::uint64_t size, View, ErrorCode&) override { chunk = size; }
    std::size_t on_chunk_body_impl(std::uint64_t, View bytes, ErrorCode&) override
    {
        chunk -= bytes.size();
        body.append(bytes.data(), bytes.size());
        return bytes.size();
    }
    void on_finish_impl(ErrorCode&) override {}

    int version_ = 11;
};

MessageParser::MessageParser(Kind kind, bool expect_no_body)
{
    if (kind == Kind::Request)
        machine_ = std::make_unique<Typed<true>>(expect_no_body);
    else
        machine_ = std::make_unique<Typed<false>>(expect_no_body);
}

MessageParser::MessageParser(MessageParser&&) noexcept = default;
MessageParser& MessageParser::operator=(MessageParser&&) noexcept = default;
MessageParser::~MessageParser() = default;

Result<std::size_t> MessageParser::feed(std::string_view bytes)
{
    std::size_t used = 0;
    while (used < bytes.size() && !machine_->done()) {
        // Beast asserts that the last chunk comes in no less than this, and every chunk is followed by as
        // much.
        if (machine_->head_done() && machine_->chunked() && machine_->chunk == 0 &&
            bytes.size() - used < kLastChunk)
            break;
        ErrorCode error;
        const auto n = machine_->put(bytes.substr(used), error);
        used += n;
        if (error == beast::error::need_more) break;
        if (error == beast::error::header_limit || error == beast::error::buffer_overflow)
            return fail(Code::Exhausted, "the request's head is larger than {} bytes", kHeadLimit);
        if (error) return fail(Code::Invalid, "not an HTTP message: {}", error.message());
        if (n == 0) break;
    }
    return used;
}

Status MessageParser::end()
{
    ErrorCode error;
    machine_->put_eof(error);
    if (error) return fail(Code::Unavailable, "the message was cut off: {}", error.message());
    return {};
}

bool MessageParser::head_done() const noexcept { return machine_->head_done(); }
bool MessageParser::done() const noexcept { return machine_->done(); }
int MessageParser::status() const noexcept { return machine_->status; }
Pairs& MessageParser::headers() noexcept { return machine_->headers; }
bool MessageParser::keep_alive() const { return machine_->keep_alive(); }
std::string MessageParser::take_body() { return std::exchange(machine_->body, {}); }
bool MessageParser::has_body() const noexcept { return !machine_->body.empty(); }

RequestHead MessageParser::take_head()
{
    RequestHead out;
    out.method = std::move(machine_->method);
    out.target = std::move(machine_->target);
    out.headers = std::move(machine_->headers);
    out.chunked = machine_->chunked();
    out.length = machine_->length();
    out.keep_alive = machine_->keep_alive();
    out.upgrade = machine_->upgrade();
    return out;
}

} // namespace berth::http

#include "server/http/tls_channel.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

namespace berth::http {

namespace asio = boost::asio;

struct TlsContext {
    explicit TlsContext(asio::ssl::stream_base::handshake_type side)
        : role(side), context(side == asio::ssl::stream_base::server ? asio::ssl::context::tls_server
                                                                     : asio::ssl::context::tls_client)
    {
    }
    asio::ssl::stream_base::handshake_type role;
    asio::ssl::context context;
};

namespace {

constexpr auto as_value = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kPiece = std::size_t{16} << 10;

constexpr unsigned char kOurs[] = "\x08http/1.1"; // the one protocol we speak

/// A client that offers others chooses it too.
int choose_protocol(SSL*, const unsigned char** out, unsigned char* size, const unsigned char* in,
                    unsigned int in_size, void*)
{
    unsigned char* chosen = nullptr;
    if (SSL_select_next_proto(&chosen, size, &kOurs[0], sizeof kOurs - 1, in, in_size) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_NOACK;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

class TlsChannel final : public Channel {
public:
    TlsChannel(StreamSocket socket, std::shared_ptr<TlsContext> context)
        : context_(std::move(context)), stream_(std::move(socket), context_->context)
    {
    }

    Task<Status> handshake(SteadyTime until)
    {
        read_until_ = until;
        auto [error] = co_await stream_.async_handshake(context_->role, as_value);
        read_until_ = kNever;
        if (error) co_return std::unexpected(channel_error(error, late_));
        co_return Status{};
    }

    Task<Result<std::size_t>> read_some(std::span<char> into, SteadyTime until) override
    {
        read_until_ = until;
        auto [error, n] = co_await stream_.async_read_some(asio::buffer(into.data(), into.size()), as_value);
        read_until_ = kNever;
        if (error == asio::error::eof) co_return std::size_t{0};
        // Many programs hang up without a word of TLS; from one that nobody vouches for that is as good.
        const bool client = context_->role == asio::ssl::stream_base::client;
        if (client && error == asio::ssl::error::stream_truncated) co_return std::size_t{0};
        if (error) co_return std::unexpected(channel_error(error, late_));
        co_return n;
    }

    /// Bytes may be here already, decrypted: there is nothing to wait for but by reading.
    Task<Result<std::size_t>> read_behind(std::string& buffer, SteadyTime until) override
    {
        const auto old = buffer.size();
        buffer.resize(old + kPiece);
        auto n = co_await read_some(std::span(buffer).subspan(old), until);
        buffer.resize(old + n.value_or(0));
        co_return n;
    }

    Task<Status> write(std::string_view bytes, SteadyTime until) override
    {
        write_until_ = until;
        auto [error, n] =
            co_await asio::async_write(stream_, asio::buffer(bytes.data(), bytes.size()), as_value);
        write_until_ = kNever;
        if (error) co_return std::unexpected(channel_error(error, late_));
        co_return Status{};
    }

    /// Joined: one record instead of one for each.
    Task<Status> write_parts(std::span<const std::string_view> parts, SteadyTime until) override
    {
        std::string joined;
        for (const auto part : parts) joined += part;
        co_return co_await write(joined, until);
    }

    Task<void> gone() override { co_await peer_gone(stream_.next_layer()); }
    void end_writing() noexcept override
    {
        boost::system::error_code ignored;
        stream_.next_layer().shutdown(asio::socket_base::shutdown_send, ignored);
    }
    void close() noexcept override { close_socket(stream_.next_layer(), false); }
    void reset() noexcept override { close_socket(stream_.next_layer(), true); }

private:
    std::shared_ptr<TlsContext> context_; // shared: a connection may outlive its host's
    asio::ssl::stream<StreamSocket> stream_;
};

} // namespace

Result<std::shared_ptr<TlsContext>> make_tls_context(const TlsFiles& files)
{
    auto out = std::make_shared<TlsContext>(asio::ssl::stream_base::server);
    boost::system::error_code error;
    out->context.set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                                 asio::ssl::context::no_tlsv1_1 | asio::ssl::context::no_sslv3,
                             error);
    SSL_CTX_set_alpn_select_cb(out->context.native_handle(), choose_protocol, nullptr);
    out->context.use_certificate_chain_file(files.certificate, error);
    if (error)
        return fail(Code::Invalid, "reading the certificate {}: {}", files.certificate, error.message());
    out->context.use_private_key_file(files.key, asio::ssl::context::pem, error);
    if (error) return fail(Code::Invalid, "reading the key {}: {}", files.key, error.message());
    return out;
}

std::unique_ptr<Channel> make_tls_channel(StreamSocket socket, std::shared_ptr<TlsContext> context)
{
    return std::make_unique<TlsChannel>(std::move(socket), std::move(context));
}

std::unique_ptr<Channel> make_tls_client_channel(StreamSocket socket)
{
    static const auto context = [] {
        auto made = std::make_shared<TlsContext>(asio::ssl::stream_base::client);
        boost::system::error_code ignored;
        made->context.set_verify_mode(asio::ssl::verify_none, ignored);
        SSL_CTX_set_alpn_protos(made->context.native_handle(), &kOurs[0], sizeof kOurs - 1);
        return made;
    }();
    return std::make_unique<TlsChannel>(std::move(socket), context);
}

Task<Status> tls_handshake(Channel& channel, SteadyTime until)
{
    co_return co_await static_cast<TlsChannel&>(channel).handshake(until);
}

} // namespace berth::http

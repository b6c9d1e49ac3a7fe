// The connection to a server. Its other end is trusted with what it serves, not with our memory or our time:
// nothing here waits without a deadline.

#include "http_client/wire.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/scope_exit.hpp"

namespace berth::http_client {

namespace {

/// DeadlineExceeded when nothing happened.
Status await(int socket, short events, SteadyTime until, std::string_view who)
{
    for (;;) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - system_clock().steady());
        pollfd ready{.fd = socket, .events = events, .revents = 0};
        const auto patience = std::clamp<std::int64_t>(left.count(), 0, 1 << 30);
        const int n = ::poll(&ready, 1, static_cast<int>(patience));
        if (n > 0) return {};
        if (n < 0 && errno != EINTR) return fail_errno("waiting for {}", who);
        if (n == 0) return fail(Code::DeadlineExceeded, "{} does not answer", who);
    }
}

/// Connected, or why not.
Result<UniqueFd> connect_to(int family, const sockaddr* address, socklen_t size, SteadyTime until,
                            std::string_view who)
{
    UniqueFd socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket) return fail_errno("making a socket");
    if (::connect(socket.get(), address, size) == 0) return socket;
    if (errno != EINPROGRESS && errno != EAGAIN) return fail_errno("connecting");
    BERTH_CHECK(await(socket.get(), POLLOUT, until, who));
    int error = 0;
    socklen_t length = sizeof error;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) return fail_with(error, "connecting");
    return socket;
}

Result<UniqueFd> connect_unix(const Place& place, SteadyTime until)
{
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (place.socket.size() >= sizeof address.sun_path)
        return fail(Code::Invalid, "the path of the socket is too long: {}", place.socket);
    std::ranges::copy(place.socket, &address.sun_path[0]);
    return connect_to(AF_UNIX, reinterpret_cast<const sockaddr*>(&address), sizeof address, until, place.who);
}

Result<UniqueFd> connect_tcp(const Place& place, SteadyTime until)
{
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    // Whatever is below "localhost" is this machine (RFC 6761), also where the resolver does not know it.
    const std::string host = !place.address.empty()               ? place.address
                             : place.host.ends_with(".localhost") ? "127.0.0.1"
                                                                  : place.host;
    if (!place.address.empty()) hints.ai_flags = AI_NUMERICHOST;
    const int bad = ::getaddrinfo(host.c_str(), std::to_string(place.port).c_str(), &hints, &found);
    if (bad != 0) return fail(Code::Unavailable, "{}: {}", place.host, ::gai_strerror(bad));
    const ScopeExit free([&] { ::freeaddrinfo(found); });
    Result<UniqueFd> socket = fail(Code::Unavailable, "{} has no address", place.host);
    for (const addrinfo* one = found; one != nullptr && !socket; one = one->ai_next)
        socket = connect_to(one->ai_family, one->ai_addr, one->ai_addrlen, until, place.who);
    if (socket) {
        const int yes = 1;
        ::setsockopt(socket->get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    }
    return socket;
}

/// What a person can do about it.
Error explain(Error error, const Place& place)
{
    const int why = error.sys.value();
    const std::string where = place.text();
    if (place.local() && (why == EACCES || why == EPERM)) {
        error.code = Code::Denied;
        error.message = fmt::format("no permission for {} at {}{}", place.who, where,
                                    place.refused.empty() ? "" : ": " + place.refused);
    } else if (why == ENOENT || why == ECONNREFUSED) {
        error.code = Code::Unavailable;
        error.message = fmt::format("{}: nobody listens at {}{}", place.who, where,
                                    place.advice.empty() ? "" : ": " + place.advice);
    } else {
        if (error.code != Code::DeadlineExceeded && error.code != Code::Invalid)
            error.code = Code::Unavailable;
        error.message = fmt::format("{} at {}: {}", place.who, where, error.message);
    }
    return error;
}

} // namespace

struct Wire::Tls {
    struct Free {
        void operator()(SSL_CTX* one) const noexcept { ::SSL_CTX_free(one); }
        void operator()(SSL* one) const noexcept { ::SSL_free(one); }
    };
    std::unique_ptr<SSL_CTX, Free> context;
    std::unique_ptr<SSL, Free> session;
    std::string who;

    /// `act` until it is done; what TLS waits for is waited for.
    template <class F>
    Result<std::size_t> until_done(int socket, SteadyTime until, std::string_view what, F act)
    {
        for (;;) {
            ::ERR_clear_error();
            const int n = act(session.get());
            if (n > 0) return static_cast<std::size_t>(n);
            switch (::SSL_get_error(session.get(), n)) {
            case SSL_ERROR_WANT_READ: BERTH_CHECK(await(socket, POLLIN, until, who)); break;
            case SSL_ERROR_WANT_WRITE: BERTH_CHECK(await(socket, POLLOUT, until, who)); break;
            case SSL_ERROR_ZERO_RETURN: return std::size_t{0};
            default: return fail(Code::Unavailable, "{}: {}", what, why());
            }
        }
    }

    /// The last word of the library, or of the certificate's check.
    [[nodiscard]] std::string why() const
    {
        if (session && ::SSL_get_verify_result(session.get()) != X509_V_OK)
            return ::X509_verify_cert_error_string(::SSL_get_verify_result(session.get()));
        const auto code = ::ERR_get_error();
        const char* text = code == 0 ? nullptr : ::ERR_reason_error_string(code);
        return text == nullptr ? "the connection ended" : text;
    }
};

Wire::Wire(UniqueFd socket, std::string who) : socket_(std::move(socket)), who_(std::move(who)) {}
Wire::Wire(Wire&&) noexcept = default;
Wire& Wire::operator=(Wire&&) noexcept = default;
Wire::~Wire() = default;

Result<Wire> Wire::connect(const Place& place, SteadyTime until)
{
    auto socket = place.local() ? connect_unix(place, until) : connect_tcp(place, until);
    if (!socket) return std::unexpected(explain(std::move(socket).error(), place));
    Wire wire(*std::move(socket), place.who);
    if (place.tls) BERTH_CHECK(wire.begin_tls(place, until));
    return wire;
}

Status Wire::begin_tls(const Place& place, SteadyTime until)
{
    auto tls = std::make_unique<Tls>();
    tls->who = place.who;
    const auto refuse = [&](std::string_view what) {
        return fail(Code::Unavailable, "TLS to {} at {}: {}: {}", place.who, place.text(), what, tls->why());
    };
    tls->context.reset(::SSL_CTX_new(::TLS_client_method()));
    if (!tls->context) return refuse("beginning");
    ::SSL_CTX_set_min_proto_version(tls->context.get(), TLS1_2_VERSION);
    const auto file = [&](const char* name) {
        const std::string path = place.certificates + "/" + name;
        return !place.certificates.empty() && ::access(path.c_str(), R_OK) == 0 ? path : std::string{};
    };
    const auto ca = file("ca.pem"), certificate = file("cert.pem"), key = file("key.pem");
    if (ca.empty()) ::SSL_CTX_set_default_verify_paths(tls->context.get());
    if (!ca.empty() && ::SSL_CTX_load_verify_locations(tls->context.get(), ca.c_str(), nullptr) != 1)
        return refuse(ca);
    if (!certificate.empty() &&
        ::SSL_CTX_use_certificate_chain_file(tls->context.get(), certificate.c_str()) != 1)
        return refuse(certificate);
    if (!key.empty() && ::SSL_CTX_use_PrivateKey_file(tls->context.get(), key.c_str(), SSL_FILETYPE_PEM) != 1)
        return refuse(key);
    ::SSL_CTX_set_verify(tls->context.get(), place.verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, nullptr);
    tls->session.reset(::SSL_new(tls->context.get()));
    if (!tls->session) return refuse("beginning");
    // A certificate for an address names it as one; server name indication is for names only.
    if (::X509_VERIFY_PARAM_set1_ip_asc(::SSL_get0_param(tls->session.get()), place.host.c_str()) != 1) {
        ::SSL_set1_host(tls->session.get(), place.host.c_str());
        ::SSL_set_tlsext_host_name(tls->session.get(), place.host.c_str());
    }
    ::SSL_set_fd(tls->session.get(), socket_.get());
    const auto what = fmt::format("TLS to {} at {}", place.who, place.text());
    BERTH_TRY(const auto done, tls->until_done(socket_.get(), until, what,
                                               [](SSL* session) { return ::SSL_connect(session); }));
    if (done == 0) return refuse("the connection ended");
    tls_ = std::move(tls);
    return {};
}

Status Wire::write(std::string_view bytes, SteadyTime until)
{
    while (tls_ && !bytes.empty()) {
        const auto some = static_cast<int>(std::min<std::size_t>(bytes.size(), 1 << 20));
        BERTH_TRY(const auto n,
                  tls_->until_done(socket_.get(), until, "writing to " + who_,
                                   [&](SSL* session) { return ::SSL_write(session, bytes.data(), some); }));
        if (n == 0) return fail_with(EPIPE, "writing to {}", who_);
        bytes.remove_prefix(n);
    }
    while (!bytes.empty()) {
        const ssize_t n = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (n > 0) {
            bytes.remove_prefix(static_cast<std::size_t>(n));
            continue;
        }
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno != EAGAIN) return fail_errno("writing to {}", who_);
        BERTH_CHECK(await(socket_.get(), POLLOUT, until, who_));
    }
    return {};
}

Result<std::size_t> Wire::read(char* to, std::size_t size, SteadyTime until)
{
    if (tls_)
        return tls_->until_done(socket_.get(), until, "reading from " + who_, [&](SSL* session) {
            return ::SSL_read(session, to, static_cast<int>(std::min<std::size_t>(size, 1 << 20)));
        });
    for (;;) {
        const ssize_t n = ::recv(socket_.get(), to, size, 0);
        if (n >= 0) return static_cast<std::size_t>(n);
        if (errno == EINTR) continue;
        if (errno != EAGAIN) return fail_errno("reading from {}", who_);
        BERTH_CHECK(await(socket_.get(), POLLIN, until, who_));
    }
}

bool Wire::readable() const
{
    if (tls_) {
        // Bytes on the socket need not be for us: TLS 1.3 sends tickets of its own after the handshake.
        ::ERR_clear_error();
        char byte = 0;
        const int n = ::SSL_peek(tls_->session.get(), &byte, 1);
        return n > 0 || ::SSL_get_error(tls_->session.get(), n) != SSL_ERROR_WANT_READ;
    }
    pollfd ready{.fd = socket_.get(), .events = POLLIN, .revents = 0};
    return ::poll(&ready, 1, 0) > 0;
}

/// Between the session and a socket of ours, until both directions have ended.
void Wire::pump(int end)
{
    constexpr std::size_t piece = std::size_t{16} << 10;
    constexpr auto patience = std::chrono::minutes(10);
    std::string buffer(piece, '\0');
    const auto later = [&] { return system_clock().steady() + patience; };
    for (bool ours = true, theirs = true; ours || theirs;) {
        if (theirs && readable()) {
            const auto n = read(buffer.data(), buffer.size(), later());
            theirs = n && *n > 0;
            if (!theirs) ::shutdown(end, SHUT_WR);
            for (std::string_view left(buffer.data(), n.value_or(0)); !left.empty();) {
                const ssize_t sent = ::send(end, left.data(), left.size(), MSG_NOSIGNAL);
                if (sent <= 0) return; // nobody reads it any more
                left.remove_prefix(static_cast<std::size_t>(sent));
            }
            continue;
        }
        pollfd ready[2] = {{.fd = ours ? end : -1, .events = POLLIN, .revents = 0},
                           {.fd = theirs ? socket_.get() : -1, .events = POLLIN, .revents = 0}};
        if (::poll(&ready[0], 2, -1) < 0 && errno != EINTR) return;
        if (ready[0].revents == 0) continue;
        const ssize_t n = ::recv(end, buffer.data(), buffer.size(), 0);
        ours = n > 0;
        if (!ours) {
            (void)::SSL_shutdown(tls_->session.get()); // no more from us; the answer may go on
            continue;
        }
        if (!write(std::string_view(buffer).substr(0, static_cast<std::size_t>(n)), later())) return;
    }
}

Result<UniqueFd> Wire::into_socket(Wire wire)
{
    if (!wire.tls_) return std::move(wire.socket_);
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, &ends[0]) != 0)
        return fail_errno("making a pair of sockets");
    UniqueFd near(ends[0]);
    std::thread([session = std::move(wire), end = UniqueFd(ends[1])]() mutable {
        session.pump(end.get());
    }).detach();
    return near;
}

void Wire::hang_up() const noexcept { ::shutdown(socket_.get(), SHUT_RDWR); }

} // namespace berth::http_client

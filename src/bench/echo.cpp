#include "bench/echo.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "base/io.hpp"
#include "base/strings.hpp"
#include "bench/command.hpp"
#include "sys/launch.hpp"

namespace berth::bench {

namespace {

constexpr std::size_t kPiece = std::size_t{16} << 10;
constexpr int kEvents = 64;
constexpr timeval kPatience{.tv_sec = 30, .tv_usec = 0};

/// The bytes of one message at the beginning of `text`, and where its body begins; zero: not all are there.
struct Message {
    std::size_t size = 0;
    std::size_t body = 0;
};

Message first_message(std::string_view text)
{
    const auto end = text.find("\r\n\r\n");
    if (end == std::string_view::npos) return {};
    const std::string_view head = text.substr(0, end);
    std::size_t length = 0;
    for (const std::string_view name : {"\r\nContent-Length: ", "\r\ncontent-length: "})
        if (const auto at = head.find(name); at != std::string_view::npos)
            length = std::strtoul(head.data() + at + name.size(), nullptr, 10);
    if (text.size() < end + 4 + length) return {};
    return {.size = end + 4 + length, .body = end + 4};
}

sockaddr_in loopback(std::uint16_t port)
{
    sockaddr_in out{};
    out.sin_family = AF_INET;
    out.sin_port = htons(port);
    out.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return out;
}

void set_no_delay(int fd)
{
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/// False: the connection is over.
bool answer_all(int fd, std::string& seen)
{
    std::array<char, kPiece> piece{};
    const auto n = ::read(fd, piece.data(), piece.size());
    if (n < 0) return errno == EAGAIN;
    if (n == 0) return false;
    seen.append(piece.data(), static_cast<std::size_t>(n));
    for (;;) {
        const auto message = first_message(seen);
        if (message.size == 0) return true;
        const std::string_view body(seen.data() + message.body, message.size - message.body);
        const std::string out = fmt::format("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                                            "Content-Length: {}\r\n\r\n{}",
                                            body.size(), body);
        if (!write_all(fd, out)) return false;
        seen.erase(0, message.size);
    }
}

} // namespace

int serve_echo()
{
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    auto address = loopback(0);
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    if (!listener || ::bind(listener.get(), generic, size) != 0 || ::listen(listener.get(), 1024) != 0 ||
        ::getsockname(listener.get(), generic, &size) != 0)
        return 1;
    if (!write_all(STDOUT_FILENO, fmt::format("{}\n", ntohs(address.sin_port)))) return 1;
    const UniqueFd poll(::epoll_create1(EPOLL_CLOEXEC));
    const auto watch = [&](int fd) {
        epoll_event event{};
        event.events = EPOLLIN;
        event.data.fd = fd;
        return ::epoll_ctl(poll.get(), EPOLL_CTL_ADD, fd, &event) == 0;
    };
    if (!poll || !watch(listener.get()) || !watch(STDIN_FILENO)) return 1;
    std::map<int, std::pair<UniqueFd, std::string>> open;
    for (;;) {
        std::array<epoll_event, kEvents> events{};
        const int n = ::epoll_wait(poll.get(), events.data(), kEvents, -1);
        if (n < 0 && errno != EINTR) return 1;
        for (int i = 0; i < n; ++i) {
            const int fd = events[static_cast<std::size_t>(i)].data.fd;
            if (fd == STDIN_FILENO) return 0;
            if (fd == listener.get()) {
                UniqueFd next(::accept4(fd, nullptr, nullptr, SOCK_CLOEXEC));
                if (!next || !watch(next.get())) continue;
                set_no_delay(next.get());
                const int number = next.get();
                open[number] = {std::move(next), std::string{}};
            } else if (!answer_all(fd, open[fd].second)) {
                open.erase(fd);
            }
        }
    }
}

Result<Echo> Echo::start()
{
    BERTH_TRY(const auto program, own_program());
    std::array<int, 2> in{}, out{};
    if (::pipe2(in.data(), O_CLOEXEC) != 0) return fail_errno("making a pipe");
    UniqueFd read_in(in[0]), write_in(in[1]);
    if (::pipe2(out.data(), O_CLOEXEC) != 0) return fail_errno("making a pipe");
    const UniqueFd says(out[0]);
    sys::StepList list;
    list.dup(list.own(std::move(read_in)), 0);
    list.dup(list.own(UniqueFd(out[1])), 1);
    list.exec_path({program}, {program, "bench", "generate", "echo"}, {});
    BERTH_TRY(auto launched, sys::launch(list, {}));
    auto child = sys::Child::own(launched.pid, std::move(launched.pidfd));
    std::string line;
    for (char byte = 0; ::read(says.get(), &byte, 1) == 1 && byte != '\n';) line += byte;
    BERTH_TRY(const auto port, parse_int(line, 1, 65535, "port of the echo"));
    return Echo(std::move(child), std::move(write_in), static_cast<std::uint16_t>(port));
}

Result<UniqueFd> dial(std::uint16_t port)
{
    const auto address = loopback(port);
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!fd || ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
        return fail_errno("connecting to port {}", port);
    set_no_delay(fd.get());
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
    return fd;
}

Result<Load> Load::connect(std::uint16_t port, std::size_t connections)
{
    Load out;
    for (std::size_t i = 0; i < connections; ++i) {
        BERTH_TRY(auto fd, dial(port));
        out.sockets_.push_back(std::move(fd));
    }
    return out;
}

Status Load::run(const std::string& request, std::size_t rounds)
{
    std::array<char, kPiece> piece{};
    std::string seen;
    for (std::size_t round = 0; round < rounds; ++round) {
        for (const auto& socket : sockets_) BERTH_CHECK(write_all(socket.get(), request));
        for (const auto& socket : sockets_) {
            seen.clear();
            while (first_message(seen).size == 0) {
                const auto n = ::read(socket.get(), piece.data(), piece.size());
                if (n < 0) return fail_errno("waiting for an answer");
                if (n == 0) return fail(Code::Unavailable, "the server hung up");
                seen.append(piece.data(), static_cast<std::size_t>(n));
            }
            if (!seen.starts_with("HTTP/1.1 2"))
                return fail(Code::Internal, "the answer was {}", printable(seen, 200));
        }
    }
    return {};
}

std::string json_post(const std::string& target, const std::string& more_headers, const std::string& body)
{
    return fmt::format("POST {} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                       "Content-Length: {}\r\n{}\r\n{}",
                       target, body.size(), more_headers, body);
}

} // namespace berth::bench

#include "bench/codex_server.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "base/io.hpp"
#include "base/json_reader.hpp"
#include "base/scope_exit.hpp"
#include "base/strings.hpp"
#include "bench/context.hpp"

namespace berth::bench {

namespace {

constexpr int kPatience = 60'000; // ms
constexpr std::size_t kLongest = std::size_t{64} << 20;

/// The port of the first "ws://127.0.0.1:PORT" that is printed.
Result<std::uint16_t> announced_port(int says)
{
    constexpr std::string_view scheme = "ws://127.0.0.1:";
    std::string text;
    for (;;) {
        const auto at = text.find(scheme);
        const auto end = at == std::string::npos ? std::string::npos
                                                 : text.find_first_not_of("0123456789", at + scheme.size());
        if (end != std::string::npos) {
            const std::string number = text.substr(at + scheme.size(), end - at - scheme.size());
            BERTH_TRY(const auto port, parse_int(number, 1, 65535, "port"));
            return static_cast<std::uint16_t>(port);
        }
        pollfd waiting{.fd = says, .events = POLLIN, .revents = 0};
        char piece[1024];
        const ssize_t n = ::poll(&waiting, 1, kPatience) == 1 ? ::read(says, &piece[0], sizeof piece) : 0;
        if (n <= 0 || text.size() > 65536)
            return fail(Code::Unavailable, "it did not say where it listens: {}", printable(text, 300));
        text.append(&piece[0], static_cast<std::size_t>(n));
    }
}

std::string framed(std::string_view payload)
{
    std::string out("\x81", 1);
    const auto put = [&](std::uint64_t value, int bytes) {
        for (int shift = (bytes - 1) * 8; shift >= 0; shift -= 8)
            out.push_back(static_cast<char>(value >> shift));
    };
    if (payload.size() < 126) {
        put(0x80 | payload.size(), 1);
    } else if (payload.size() < 65536) {
        put(0x80 | 126, 1);
        put(payload.size(), 2);
    } else {
        put(0x80 | 127, 1);
        put(payload.size(), 8);
    }
    out.append(4, '\0'); // a mask of zeros changes nothing
    return out.append(payload);
}

} // namespace

Result<std::unique_ptr<CodexServer>> CodexServer::start(std::vector<std::string> argv,
                                                        const std::string& place)
{
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return fail_errno("making a pipe");
    std::unique_ptr<CodexServer> out(new CodexServer);
    out->says_.reset(pipe[0]);
    UniqueFd writes(pipe[1]);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    const ScopeExit destroy([&] { ::posix_spawn_file_actions_destroy(&actions); });
    ::posix_spawn_file_actions_adddup2(&actions, writes.get(), STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, writes.get(), STDERR_FILENO);
    std::vector<std::string> environment{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + place,
                                         "CODEX_HOME=" + place + "/codex-home", "TMPDIR=" + place + "/tmp"};
    ::mkdir((place + "/codex-home").c_str(), 0755);
    ::mkdir((place + "/tmp").c_str(), 0777);
    std::vector<char*> words;
    std::vector<char*> variables;
    for (auto& word : argv) words.push_back(word.data());
    for (auto& word : environment) variables.push_back(word.data());
    words.push_back(nullptr);
    variables.push_back(nullptr);
    const int failed =
        ::posix_spawn(&out->pid_, words.front(), &actions, nullptr, words.data(), variables.data());
    if (failed != 0) return fail_with(failed, "starting {}", argv.front());
    writes.reset();
    BERTH_TRY(const auto port, announced_port(out->says_.get()));
    BERTH_CHECK(out->greet(port));
    return out;
}

CodexServer::~CodexServer()
{
    socket_.reset();
    if (pid_ <= 0) return;
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
    // What it left to the next of kin is ours, as this process has wished.
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
}

Status CodexServer::greet(std::uint16_t port)
{
    socket_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (!socket_ || ::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0)
        return fail_errno("connecting to port {}", port);
    const int one = 1;
    ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    BERTH_CHECK(
        write_all(socket_.get(), fmt::format("GET / HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: Upgrade\r\n"
                                             "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                                             "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n",
                                             port)));
    std::string head;
    while (!head.ends_with("\r\n\r\n")) {
        BERTH_TRY(const auto byte, take(1));
        head += byte;
    }
    if (!head.starts_with("HTTP/1.1 101")) return fail(Code::Unavailable, "{}", printable(head, 100));
    BERTH_TRY([[maybe_unused]] const auto said, call("initialize", {{"clientName", "bench"}}));
    json::Object initialized;
    initialized["method"] = "initialized";
    initialized["params"] = json::Object{};
    return send(initialized);
}

Result<std::string> CodexServer::take(std::size_t count)
{
    while (buffer_.size() < count) {
        pollfd waiting{.fd = socket_.get(), .events = POLLIN, .revents = 0};
        if (::poll(&waiting, 1, kPatience) != 1) return fail(Code::DeadlineExceeded, "no answer");
        char piece[65536];
        const ssize_t n = ::recv(socket_.get(), &piece[0], sizeof piece, 0);
        if (n <= 0) return fail(Code::Unavailable, "the server has closed the connection");
        buffer_.append(&piece[0], static_cast<std::size_t>(n));
    }
    std::string out = buffer_.substr(0, count);
    buffer_.erase(0, count);
    return out;
}

Status CodexServer::send(const json::Object& message)
{
    return write_all(socket_.get(), framed(json::dump(message)));
}

Result<json::Object> CodexServer::receive()
{
    std::string message;
    for (;;) {
        BERTH_TRY(const auto head, take(2));
        std::uint64_t size = static_cast<unsigned char>(head[1]) & 0x7f;
        if (size >= 126) {
            BERTH_TRY(const auto more, take(size == 126 ? 2 : 8));
            size = 0;
            for (const char c : more) size = size << 8 | static_cast<unsigned char>(c);
        }
        if (size > kLongest) return fail(Code::Invalid, "a frame of {} bytes", size);
        BERTH_TRY(const auto payload, take(size));
        const auto first = static_cast<unsigned char>(head[0]);
        if ((first & 0xf) == 8) return fail(Code::Unavailable, "the server has closed the connection");
        if ((first & 0xf) > 8) continue; // a ping may wait: nothing here lasts
        message += payload;
        if ((first & 0x80) == 0) continue;
        BERTH_TRY(auto document, json::parse(message, {.bytes = kLongest}));
        if (!document.is_object()) return fail(Code::Invalid, "a message that is no object");
        return std::move(document.as_object());
    }
}

Result<json::Object> CodexServer::call(const std::string& method, json::Object params)
{
    json::Object request;
    request["id"] = ++number_;
    request["method"] = method;
    request["params"] = std::move(params);
    BERTH_CHECK(send(request));
    for (;;) {
        BERTH_TRY(auto message, receive());
        const auto* const id = message.if_contains("id");
        if (id == nullptr || message.contains("method") || *id != json::Value(number_)) continue;
        if (const auto* const error = message.if_contains("error"))
            return fail(Code::Denied, "{}: {}", method, printable(json::dump(*error), 300));
        return message;
    }
}

Result<double> CodexServer::first_output(json::Object params)
{
    const std::string name = fmt::format("p{}", ++number_);
    params["processId"] = name;
    json::Object request;
    request["id"] = number_;
    request["method"] = "process/start";
    request["params"] = std::move(params);
    const Stopwatch watch;
    BERTH_CHECK(send(request));
    double taken = 0;
    for (;;) {
        BERTH_TRY(const auto message, receive());
        if (const auto* const error = message.if_contains("error"))
            return fail(Code::Denied, "process/start: {}", printable(json::dump(*error), 300));
        const auto* const method = message.if_contains("method");
        if (method == nullptr || !method->is_string()) continue;
        if (*method == "process/output" && taken == 0) taken = watch.nanoseconds();
        if (*method == "process/closed") break;
    }
    if (taken == 0) return fail(Code::Internal, "the command printed nothing");
    return taken;
}

} // namespace berth::bench

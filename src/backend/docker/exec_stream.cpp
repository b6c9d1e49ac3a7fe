#include "backend/docker/exec_stream.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <thread>

#include "backend/docker/container.hpp"
#include "base/json_reader.hpp"

namespace berth::docker {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t kHead = 8;
constexpr std::size_t kLargestPiece = std::size_t{4} << 20; // engines send 32 KiB
constexpr std::size_t kRoom = std::size_t{64} << 10;
constexpr auto kEndPatience = 10s;

/// False: the time is over.
Result<bool> await(int socket, short events, SteadyTime until)
{
    for (;;) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - system_clock().steady());
        pollfd ready{.fd = socket, .events = events, .revents = 0};
        const int n = ::poll(&ready, 1, static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1 << 30)));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail_errno("waiting for a command of the engine");
        return n > 0;
    }
}

Result<std::string> prepare(const Engine& engine, const std::string& container, const EngineCommand& command,
                            bool heard)
{
    json::Array words, env;
    for (const auto& word : command.words) words.emplace_back(word);
    for (const auto& one : command.env) env.emplace_back(one);
    json::Object wish;
    wish["Cmd"] = std::move(words);
    wish["Env"] = std::move(env);
    wish["User"] = command.user;
    wish["WorkingDir"] = "/";
    wish["AttachStdin"] = command.input;
    wish["AttachStdout"] = heard;
    wish["AttachStderr"] = heard;
    BERTH_TRY(const auto made, engine.post(fmt::format("/containers/{}/exec", container), wish));
    BERTH_TRY(const auto id, json::Reader(made).at("Id"));
    BERTH_TRY(auto text, id.string());
    BERTH_CHECK(check_engine_id(text));
    return text;
}

} // namespace

Status start_detached(const Engine& engine, const std::string& container, const EngineCommand& command)
{
    BERTH_TRY(const auto id, prepare(engine, container, command, false));
    BERTH_TRY([[maybe_unused]] const auto started,
              engine.post("/exec/" + id + "/start", json::Object{{"Detach", true}}));
    return {};
}

Result<ExecStream> ExecStream::start(const Engine& engine, const std::string& container,
                                     const EngineCommand& command)
{
    BERTH_TRY(auto id, prepare(engine, container, command, true));
    std::string early;
    BERTH_TRY(auto socket, engine.hijack("/exec/" + id + "/start",
                                         json::Object{{"Detach", false}, {"Tty", false}}, early));
    return ExecStream(std::move(id), std::move(socket), std::move(early));
}

Result<ExecStream::Piece> take_piece(std::string& bytes)
{
    for (;;) {
        if (bytes.size() < kHead) return ExecStream::Piece{};
        const auto byte = [&](std::size_t at) { return std::size_t{static_cast<unsigned char>(bytes[at])}; };
        const std::size_t size = byte(4) << 24 | byte(5) << 16 | byte(6) << 8 | byte(7);
        if (byte(0) > 3 || byte(1) != 0 || byte(2) != 0 || byte(3) != 0 || size > kLargestPiece)
            return fail(Code::Unavailable, "the engine's stream of a command is damaged");
        if (bytes.size() < kHead + size) return ExecStream::Piece{};
        ExecStream::Piece out{.from =
                                  byte(0) == 2 ? ExecStream::Piece::From::Err : ExecStream::Piece::From::Out,
                              .bytes = bytes.substr(kHead, size)};
        // 3 is the engine's own word on why it failed.
        if (byte(0) == 3) return std::unexpected(refusal(500, out.bytes));
        bytes.erase(0, kHead + size);
        if (size > 0) return out;
    }
}

Result<ExecStream::Piece> ExecStream::read(SteadyTime until)
{
    for (;;) {
        BERTH_TRY(auto piece, take_piece(pending_));
        if (piece.from != Piece::From::Nobody) return piece;
        BERTH_TRY(const bool came, await(socket_.get(), POLLIN, until));
        if (!came) return piece;
        const std::size_t before = pending_.size();
        pending_.resize(before + kRoom);
        const ssize_t n = ::recv(socket_.get(), pending_.data() + before, kRoom, MSG_DONTWAIT);
        const int error = errno;
        pending_.resize(before + static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
        if (n > 0 || (n < 0 && (error == EAGAIN || error == EINTR))) continue;
        if (n < 0) return fail_with(error, "hearing a command of the engine");
        if (!pending_.empty()) return fail(Code::Unavailable, "the engine's stream of a command was cut off");
        return Piece{.from = Piece::From::End, .bytes = {}};
    }
}

Status ExecStream::write(std::string_view bytes, SteadyTime until)
{
    const std::scoped_lock lock(*writing_);
    while (!bytes.empty()) {
        const ssize_t n = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) {
            bytes.remove_prefix(static_cast<std::size_t>(n));
            continue;
        }
        if (errno == EINTR) continue;
        if (errno != EAGAIN) return fail(Code::Unavailable, "the engine has closed the stream of a command");
        BERTH_TRY(const bool room, await(socket_.get(), POLLOUT, until));
        if (!room) return fail(Code::DeadlineExceeded, "the engine does not take what is for a command");
    }
    return {};
}

void ExecStream::hang_up() const noexcept { ::shutdown(socket_.get(), SHUT_RDWR); }

Result<int> ExecStream::exit_code(const Engine& engine) const
{
    // The end of the streams may come a moment before the engine knows it as ended.
    for (const auto end = system_clock().steady() + kEndPatience;;) {
        BERTH_TRY(const auto document, engine.get("/exec/" + id_ + "/json"));
        const json::Reader at(document);
        BERTH_TRY(const auto running_at, at.at("Running"));
        BERTH_TRY(const bool running, running_at.boolean());
        if (!running) {
            BERTH_TRY(const auto code_at, at.at("ExitCode"));
            BERTH_TRY(const auto code, code_at.integer(0, 255));
            return static_cast<int>(code);
        }
        if (system_clock().steady() >= end)
            return fail(Code::Unavailable, "a command has closed its streams and does not end");
        std::this_thread::sleep_for(5ms);
    }
}

} // namespace berth::docker

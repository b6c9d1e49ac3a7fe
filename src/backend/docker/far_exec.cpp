#include "backend/docker/far_exec.hpp"

#include <algorithm>

#include "backend/docker/inspect.hpp"
#include "base/hooks.hpp"
#include "base/log.hpp"
#include "base/strings.hpp"
#include "keeping/exec_start.hpp"
#include "keeping/relay_frames.hpp"

namespace berth::docker {

namespace {

using namespace std::chrono_literals;
using keeper::Kind;
using keeper::RelayHead;
using keeper::RelayKind;
using keeping::relay_frame;
using From = ExecStream::Piece::From;

constexpr auto kStartPatience = 60s;
constexpr auto kReach = 30s; // without an answer it is out of reach
constexpr std::chrono::seconds kGreeting = 20s;
constexpr auto kBreath = 200ms;
constexpr auto kLook = 50ms; // for somebody who wants it
constexpr auto kMoment = 200ms;
constexpr std::uint64_t kGrantStep = keeper::kRelayFirstCredit / 4;

SteadyTime now() { return system_clock().steady(); }

Error impossible(std::string_view what)
{
    return fail(Code::Invalid, "a container tells what cannot be: {}", what).error();
}

} // namespace

FarExec::FarExec(const Engine& engine, std::string container, keeping::RelayedWish wish)
    : engine_(engine), container_(std::move(container)), wish_(std::move(wish))
{
}

FarExec::~FarExec()
{
    {
        const std::scoped_lock lock(mutex_);
        stopping_ = true;
        if (stream_) stream_->hang_up();
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
}

std::string FarExec::socket() const { return fmt::format("{}/{}", kRunInside, wish_.exec); }

Result<FarExec::StreamPtr> FarExec::attach(bool waits) const
{
    BERTH_TRY(auto stream,
              ExecStream::start(engine_, container_,
                                {.words = {kFarKeeper, waits ? "xw" : "xa", socket()}, .input = true}));
    return std::make_shared<ExecStream>(std::move(stream));
}

Status FarExec::start(const ExecSpec& spec, const keeping::Account& user, const std::vector<std::string>& env,
                      const std::string& cwd)
{
    BERTH_TRY(const auto begin, keeping::relay_begin(spec, cwd, env));
    const auto until = now() + kStartPatience;
    BERTH_CHECK(start_detached(
        engine_, container_,
        {.words = {kFarKeeper, "xs", socket(), std::to_string(user.uid), std::to_string(user.gid)}}));
    hooks::kill_point("docker: relay started");
    BERTH_TRY(stream_, attach(true));
    BERTH_CHECK(send(RelayKind::Begin, 0, begin));
    hooks::kill_point("docker: command told");
    while (!begun_ && !failed_) {
        BERTH_TRY(const auto piece, stream_->read(until));
        if (piece.from == From::Out) BERTH_CHECK(take(piece.bytes));
        if (piece.from == From::End)
            return fail(Code::Unavailable, "berth's program in the container of {} has ended", wish_.native);
        if (piece.from == From::Nobody)
            return fail(Code::DeadlineExceeded, "the container of {} does not say whether the command runs",
                        wish_.native);
    }
    if (failed_) return std::unexpected(keeping::start_error(failed_->first, failed_->second, spec, cwd));
    thread_ = std::thread([this] { run(); });
    return {};
}

void FarExec::go_on()
{
    begun_ = wish_.writer.pid() != 0;
    stranger_ = true;
    thread_ = std::thread([this] { run(); });
}

bool FarExec::done() const
{
    const std::scoped_lock lock(mutex_);
    return done_;
}

std::optional<Error> FarExec::lost() const
{
    const std::scoped_lock lock(mutex_);
    return lost_;
}

void FarExec::wait_done(SteadyTime until) const
{
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, until, [&] { return done_; });
}

void FarExec::wait_heard(SteadyTime until) const
{
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, until, [&] { return !stranger_ || done_ || lost_; });
}

void FarExec::run()
{
    for (bool heard = stream_ != nullptr;; heard = true) {
        if (heard && attend()) break;
        if (!reconnect()) break;
    }
    StreamPtr stream;
    {
        const std::scoped_lock lock(mutex_);
        stream = std::move(stream_);
        stream_.reset();
        done_ = true;
    }
    // The session is free before the right to take it up is.
    stream.reset();
    const std::scoped_lock lock(mutex_);
    wish_.claim.reset();
    changed_.notify_all();
}

bool FarExec::attend()
{
    StreamPtr stream;
    {
        const std::scoped_lock lock(mutex_);
        stream = stream_;
    }
    for (;;) {
        {
            const std::scoped_lock lock(mutex_);
            if (stopping_ || done_) return true;
        }
        if (keeping::is_asked_for(wish_.directory.get())) {
            keeping::stop_asking(wish_.directory.get());
            const std::scoped_lock lock(mutex_);
            done_ = true;
            return true;
        }
        if (spent_ + keeper::kRelayFirstCredit >= granted_ + kGrantStep) {
            const auto grant = spent_ + keeper::kRelayFirstCredit;
            if (stream->write(relay_frame(RelayKind::Credit, grant, {}), now() + kReach)) granted_ = grant;
        }
        auto piece = stream->read(now() + kLook);
        if (piece && piece->from == From::Nobody) continue;
        auto done = piece && piece->from == From::Out ? take(piece->bytes) : Status{};
        if (!done) {
            const std::scoped_lock lock(mutex_);
            lost_ = std::move(done).error();
            return true;
        }
        if (!piece || piece->from == From::End) return false;
    }
}

/// False: nobody will ever know more.
bool FarExec::reconnect()
{
    const auto until = now() + kReach;
    for (;;) {
        {
            const std::scoped_lock lock(mutex_);
            stream_.reset();
            if (stopping_ || done_) return false;
        }
        partial_.clear();
        Error why;
        auto stream = attach(false);
        // The first thing that a session says; whatever is not one says nothing and ends.
        // One that was never told what to start waits for that, and ends when we hang up.
        const auto patience = now() + (begun_ ? kReach : kGreeting);
        auto first = stream ? (*stream)->read(patience) : Result<ExecStream::Piece>(ExecStream::Piece{});
        if (stream && first && first->from == From::Out) {
            {
                const std::scoped_lock lock(mutex_);
                stream_ = *stream;
            }
            changed_.notify_all();
            if (auto taken = take(first->bytes); !taken) {
                const std::scoped_lock lock(mutex_);
                lost_ = std::move(taken).error();
                return false;
            }
            return true;
        }
        if (!stream)
            why = std::move(stream).error();
        else if (!first)
            why = std::move(first).error();
        const auto container = inspect_container(engine_, container_);
        const bool gone = !container && container.error().code == Code::NotFound;
        const bool none = stream && first && (first->from != From::Nobody || !begun_);
        if (gone || (container && !container->running) || (container && none && !container->paused)) {
            finish_unknown();
            return false;
        }
        std::unique_lock lock(mutex_);
        if (now() >= until || (container && container->paused)) {
            lost_ = why.message.empty()
                        ? fail(Code::Unavailable, "the container of {} is paused", wish_.native).error()
                        : why;
            return false;
        }
        changed_.wait_for(lock, kBreath, [&] { return stopping_; });
    }
}

Status FarExec::take(std::string_view bytes)
{
    partial_ += bytes;
    std::size_t at = 0;
    while (partial_.size() - at >= sizeof(RelayHead)) {
        RelayHead head{};
        partial_.copy(reinterpret_cast<char*>(&head), sizeof head, at);
        if (head.length > keeper::kRelayPiece) return std::unexpected(impossible("a frame too long"));
        if (partial_.size() - at < sizeof head + head.length) break;
        const auto body = std::string_view(partial_).substr(at + sizeof head, head.length);
        at += sizeof head + head.length;
        BERTH_CHECK(obey(head, body));
    }
    partial_.erase(0, at);
    changed_.notify_all();
    return {};
}

Status FarExec::obey(const RelayHead& head, std::string_view body)
{
    auto& writer = wish_.writer;
    const auto output = [&](Kind kind, int stream) -> Status {
        spent_ += keeper::relay_cost(body.size());
        const std::uint64_t have = writer.bytes(stream);
        if (head.offset > have) return std::unexpected(impossible("output after a hole"));
        const std::uint64_t known = have - head.offset;
        return known >= body.size() ? Status{} : writer.output(kind, body.substr(known));
    };
    switch (head.kind) {
    case RelayKind::Started:
        if (writer.pid() == 0) BERTH_CHECK(writer.start(static_cast<int>(head.offset & 0x7fffffff)));
        begun_ = true;
        return {};
    case RelayKind::Failed:
        failed_ = {static_cast<keeper::Step>(head.offset >> 32), static_cast<int>(head.offset & 0xfff)};
        return {};
    case RelayKind::Out: return output(Kind::Out, 0);
    case RelayKind::Err: return output(Kind::Err, 1);
    case RelayKind::Pty: return output(Kind::Pty, 0);
    case RelayKind::Exit: return writer.exit(static_cast<int>(head.offset & 0xffff));
    case RelayKind::Again:
        spent_ = head.offset;
        granted_ = spent_;
        return {};
    case RelayKind::Over: {
        BERTH_CHECK(writer.exit(keeper::kStatusUnknown)); // where its end was told before, that stays
        BERTH_CHECK(writer.close());
        const std::scoped_lock lock(mutex_);
        if (stream_) (void)stream_->write(relay_frame(RelayKind::Done, 0, {}), now() + kMoment);
        done_ = true;
        return {};
    }
    default: break;
    }
    const std::scoped_lock lock(mutex_);
    switch (head.kind) {
    case RelayKind::Taken: {
        const auto upto = std::clamp(head.offset, taken_, sent_);
        window_.erase(0, upto - taken_);
        taken_ = upto;
        return {};
    }
    case RelayKind::Deaf: deaf_ = true; return {};
    case RelayKind::Heard: {
        if (stranger_) {
            sent_ = taken_ = head.offset;
            stranger_ = false;
            return {};
        }
        // What was on its way when the connection broke.
        const auto from = std::clamp(head.offset, taken_, sent_);
        const auto rest = std::string_view(window_).substr(from - taken_);
        if (stream_ && !rest.empty())
            (void)stream_->write(relay_frame(RelayKind::Input, from, rest), now() + kMoment);
        if (stream_ && ended_) (void)stream_->write(relay_frame(RelayKind::End, 0, {}), now() + kMoment);
        return {};
    }
    default: return std::unexpected(impossible("an unknown frame"));
    }
}

void FarExec::finish_unknown()
{
    auto done = wish_.writer.exit(keeper::kStatusUnknown);
    if (done) done = wish_.writer.close();
    if (!done)
        log::warn("an exec log could not be finished", {{"exec", wish_.exec}, {"why", done.error().line()}});
    const std::scoped_lock lock(mutex_);
    done_ = true;
}

Status FarExec::send(RelayKind kind, std::uint64_t offset, std::string_view bytes)
{
    const std::scoped_lock order(sending_);
    const auto text = relay_frame(kind, offset, bytes);
    const auto until = now() + kReach;
    for (;;) {
        StreamPtr stream;
        {
            std::unique_lock lock(mutex_);
            changed_.wait_until(lock, until, [&] { return done_ || lost_ || stream_; });
            if (lost_) return std::unexpected(*lost_);
            if (done_) return fail(Code::Conflict, "{} has ended", wish_.exec);
            if (!stream_) return fail(Code::Unavailable, "the engine is out of reach");
            stream = stream_;
        }
        auto sent = stream->write(text, until);
        // Input that was on its way is given again when the session is heard again.
        if (sent || kind == RelayKind::Input) return {};
        if (kind == RelayKind::Begin || now() >= until) return sent;
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, kBreath, [&] { return done_ || stream_ != stream; });
    }
}

Result<std::size_t> FarExec::write(std::uint64_t id, std::string_view bytes)
{
    std::uint64_t offset = 0;
    std::string_view piece;
    {
        std::unique_lock lock(mutex_);
        if (id != 0 && id == last_write_) return last_taken_;
        const auto room = [&] {
            return keeper::kRelayInput - std::min<std::size_t>(window_.size(), keeper::kRelayInput);
        };
        // A stranger does not know where the input is before it was told.
        changed_.wait_for(lock, kMoment,
                          [&] { return (room() > 0 && !stranger_) || deaf_ || done_ || lost_; });
        if (lost_) return std::unexpected(*lost_);
        if (done_) return fail(Code::Conflict, "{} has ended", wish_.exec);
        if (ended_ || deaf_) return fail(Code::Conflict, "the input of {} has ended", wish_.exec);
        piece = stranger_ ? std::string_view{} : bytes.substr(0, room());
        last_write_ = id;
        last_taken_ = piece.size();
        if (piece.empty()) return std::size_t{0};
        offset = sent_;
        sent_ += piece.size();
        window_ += piece;
    }
    BERTH_CHECK(send(RelayKind::Input, offset, piece));
    return piece.size();
}

Status FarExec::close_input()
{
    {
        const std::scoped_lock lock(mutex_);
        ended_ = true;
    }
    return send(RelayKind::End, 0);
}

Status FarExec::signal(int signo)
{
    if (signo < 0 || signo > 64) return fail(Code::Invalid, "{} is no signal", signo);
    return send(RelayKind::Signal, static_cast<std::uint64_t>(signo));
}

Status FarExec::resize(TerminalSize size)
{
    return send(RelayKind::Resize, std::uint64_t{size.rows} << 16 | size.columns);
}

Status FarExec::kill() { return send(RelayKind::Kill, 0); }

} // namespace berth::docker

#include "backend/e2b/exec_input.hpp"

#include <algorithm>

#include "protocol/e2b/process.hpp"

namespace berth::e2b_client {

namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMostKept = std::size_t{256} << 10;
constexpr std::size_t kPiece = std::size_t{64} << 10;
constexpr auto kMoment = 200ms;

} // namespace

ExecInput::ExecInput(Cloud& cloud, std::string instance, std::string exec, bool terminal)
    : cloud_(cloud), instance_(std::move(instance)), exec_(std::move(exec)), terminal_(terminal),
      thread_([this] { run(); })
{
}

ExecInput::~ExecInput()
{
    {
        const std::scoped_lock lock(mutex_);
        stopping_ = true;
    }
    changed_.notify_all();
    cord_.pull();
    thread_.join();
}

void ExecInput::settle(std::unique_lock<std::mutex>& lock)
{
    changed_.wait_for(lock, kMoment, [&] {
        return failed_ || (waiting_.empty() && !sending_ && (!end_asked_ || end_sent_));
    });
}

Result<std::size_t> ExecInput::write(std::uint64_t id, std::string_view bytes)
{
    std::unique_lock lock(mutex_);
    if (id != 0 && id == last_id_) return last_taken_;
    if (failed_) return std::unexpected(*failed_);
    if (end_asked_) return fail(Code::Conflict, "the input of {} has ended", exec_);
    const std::size_t taken = std::min(bytes.size(), kMostKept - std::min(kMostKept, waiting_.size()));
    waiting_ += bytes.substr(0, taken);
    last_id_ = id;
    last_taken_ = taken;
    changed_.notify_all();
    settle(lock);
    if (failed_) return std::unexpected(*failed_);
    return taken;
}

Status ExecInput::close(std::uint64_t id)
{
    std::unique_lock lock(mutex_);
    if (failed_) return std::unexpected(*failed_);
    last_id_ = id;
    last_taken_ = 0;
    end_asked_ = true;
    changed_.notify_all();
    settle(lock);
    if (failed_) return std::unexpected(*failed_);
    return {};
}

Status ExecInput::send(const std::string& bytes)
{
    e2b::ProcessCall call;
    call.process = exec_;
    call.input = e2b::ProcessInput{
        .to = terminal_ ? e2b::ProcessInput::To::Pty : e2b::ProcessInput::To::Stdin, .bytes = bytes};
    // Not tried again by anybody: nobody knows how much of it the command has read.
    BERTH_TRY(const auto session, cloud_.session(instance_));
    BERTH_TRY([[maybe_unused]] const auto answer,
              cloud_.envd().patient(session, "process.Process/SendInput", e2b::process_request(call), cord_));
    return {};
}

Status ExecInput::send_end()
{
    if (terminal_) return send("\x04"); // a terminal's input ends by a key
    e2b::ProcessCall call;
    call.process = exec_;
    return cloud_.with(instance_, [&](const Session& session) -> Status {
        BERTH_TRY([[maybe_unused]] const auto answer,
                  cloud_.envd().unary(session, "process.Process/CloseStdin", e2b::process_request(call)));
        return {};
    });
}

void ExecInput::run()
{
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [&] { return stopping_ || !waiting_.empty() || (end_asked_ && !end_sent_); });
        if (stopping_) return;
        Status done;
        const bool end = waiting_.empty();
        std::string piece = waiting_.substr(0, kPiece);
        waiting_.erase(0, piece.size());
        sending_ = true;
        lock.unlock();
        done = end ? send_end() : send(piece);
        lock.lock();
        sending_ = false;
        if (end) end_sent_ = true;
        if (!done) failed_ = std::move(done).error();
        changed_.notify_all();
        if (failed_) return;
    }
}

} // namespace berth::e2b_client

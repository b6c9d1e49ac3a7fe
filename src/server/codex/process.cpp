#include "server/codex/process.hpp"

#include <csignal>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "base/encoding.hpp"

namespace berth::codex {

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

constexpr auto as_value = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kChunk = 8192;
constexpr std::size_t kKeptChunks = 50'000;
constexpr std::size_t kUnwritten = std::size_t{1} << 20;
constexpr std::size_t kWriteIds = 4096;
constexpr auto kLongestWait = 600s;
constexpr auto kHold = 2s;
constexpr auto kLook = 5ms;
constexpr auto kDrain = 20ms; // after the exit, for output that is on its way

SteadyTime now() { return system_clock().steady(); }

int wire_code(const ExitStatus& status)
{
    if (status.code()) return *status.code();
    if (status.signal()) return 128 + *status.signal();
    return -1;
}

} // namespace

Process::Process(std::string id, Audience& audience, BlockingPool& pool, asio::any_io_executor loop)
    : id_(std::move(id)), audience_(&audience), pool_(pool), loop_(loop), changed_(loop, SteadyTime::max())
{
}

void Process::begin(Started started, bool tty, bool input)
{
    confined_ = started.confined;
    tty_ = tty;
    state_ = State::Running;
    command_ = std::move(started.command);
    if (pending_ != 0) command_->signal(pending_);
    const auto attach = [&](UniqueFd& fd) {
        return fd ? std::make_shared<Descriptor>(loop_, fd.release()) : nullptr;
    };
    if (input || tty) input_ = attach(command_->in);
    auto self = shared_from_this();
    const auto follow = [&](UniqueFd& fd, Stream stream) {
        auto descriptor = attach(fd);
        if (!descriptor) return;
        ++streams_open_;
        asio::co_spawn(
            loop_,
            [](std::shared_ptr<Process> process, std::shared_ptr<Descriptor> from,
               Stream kind) -> Task<void> {
                co_await process->read_stream(std::move(from), kind);
            }(self, std::move(descriptor), stream),
            asio::detached);
    };
    follow(command_->out, tty ? Stream::Pty : Stream::Stdout);
    follow(command_->err, Stream::Stderr);
    asio::co_spawn(
        loop_, [](std::shared_ptr<Process> process) -> Task<void> { co_await process->await_end(); }(self),
        asio::detached);
    if (!unwritten_.empty() && !feeding_) {
        feeding_ = true;
        asio::co_spawn(
            loop_,
            [](std::shared_ptr<Process> process) -> Task<void> { co_await process->feed_input(); }(self),
            asio::detached);
    }
}

Task<void> Process::read_stream(std::shared_ptr<Descriptor> from, Stream stream)
{
    std::string buffer(kChunk, '\0');
    for (;;) {
        while (audience_ != nullptr && now() < held_until_) {
            asio::steady_timer timer(loop_, std::min(held_until_, now() + kLook));
            (void)co_await timer.async_wait(as_value);
        }
        if (audience_ != nullptr) co_await audience_->room();
        const auto [error, n] = co_await from->async_read_some(asio::buffer(buffer), as_value);
        if (n > 0) add_output(stream, std::string_view(buffer).substr(0, n));
        if (error) break; // EIO is how a terminal ends
    }
    --streams_open_;
    changed_.cancel();
    close_if_over();
}

void Process::add_output(Stream stream, std::string_view bytes)
{
    kept_.push_back({.seq = next_++, .stream = stream, .bytes = std::string(bytes)});
    kept_bytes_ += bytes.size();
    keep_at_most(most_kept_);
    if (audience_ != nullptr) {
        json::Object params;
        params["processId"] = id_;
        params["seq"] = kept_.back().seq;
        params["stream"] = to_string(stream);
        params["chunk"] = base64_encode(bytes);
        audience_->tell("process/output", std::move(params));
    }
    changed_.cancel();
}

void Process::keep_at_most(std::size_t bytes)
{
    most_kept_ = bytes;
    while (kept_bytes_ > most_kept_ || kept_.size() > kKeptChunks) {
        kept_bytes_ -= kept_.front().bytes.size();
        kept_.pop_front();
    }
}

Task<void> Process::await_end()
{
    const auto self = shared_from_this();
    Descriptor ended(loop_, ::dup(command_->ended()));
    (void)co_await ended.async_wait(asio::posix::descriptor_base::wait_read, as_value);
    // What it has printed comes before its exit, unless something it left behind holds the pipes.
    const auto until = now() + kDrain;
    while (streams_open_ > 0 && now() < until) {
        asio::steady_timer breath(loop_, 1ms);
        (void)co_await breath.async_wait(as_value);
    }
    auto* const command = command_.get();
    finishing_ = true; // from here on another thread has the command
    const auto status = co_await pool_.call([command] { return command->finish(); });
    denied_ = command->refused();
    command_.reset(); // what is told of it afterwards needs no descriptor
    add_exit(status);
    if (input_) {
        boost::system::error_code ignored;
        input_->close(ignored);
    }
    close_if_over();
}

void Process::add_exit(ExitStatus status)
{
    exited_ = true;
    state_ = State::Over;
    exit_code_ = wire_code(status);
    // Evidence is a refusal of the supervisor, or the filter's own signal. A read-only mount leaves none.
    // Without a sandbox the signal is somebody else's.
    denied_ |= confined_ && status.signal() == SIGSYS;
    exit_seq_ = next_++;
    if (audience_ != nullptr) {
        json::Object params;
        params["processId"] = id_;
        params["seq"] = exit_seq_;
        params["exitCode"] = exit_code_;
        params["sandboxDenied"] = denied_;
        audience_->tell("process/exited", std::move(params));
    }
    changed_.cancel();
}

void Process::close_if_over()
{
    if (!exited_ || closed_ || streams_open_ > 0) return;
    closed_ = true;
    closed_at_ = now();
    const auto seq = next_++;
    if (audience_ != nullptr) {
        json::Object params;
        params["processId"] = id_;
        params["seq"] = seq;
        audience_->tell("process/closed", std::move(params));
    }
    changed_.cancel();
}

Task<json::Object> Process::read(ReadParams params, std::function<bool()> left)
{
    const auto self = shared_from_this();
    const auto until =
        now() +
        std::min<std::chrono::milliseconds>(
            kLongestWait, std::chrono::milliseconds(std::min<std::uint64_t>(params.wait_ms, 1'000'000'000)));
    const auto has_news = [&] {
        return (!kept_.empty() && kept_.back().seq > params.after) || closed_ ||
               (exited_ && exit_seq_ > params.after);
    };
    while (!has_news() && now() < until && !left()) {
        asio::steady_timer timer(loop_, until);
        // Whichever comes first: something happens, or the time is over.
        timer.async_wait([self](const boost::system::error_code& error) {
            if (!error) self->changed_.cancel();
        });
        (void)co_await changed_.async_wait(as_value);
        timer.cancel();
    }
    json::Array chunks;
    std::uint64_t bytes = 0;
    std::uint64_t next = next_;
    for (const auto& event : kept_) {
        if (event.seq <= params.after) continue;
        if (params.max_bytes && !chunks.empty() && bytes + event.bytes.size() > *params.max_bytes) {
            next = event.seq;
            break;
        }
        bytes += event.bytes.size();
        json::Object one;
        one["seq"] = event.seq;
        one["stream"] = to_string(event.stream);
        one["chunk"] = base64_encode(event.bytes);
        chunks.emplace_back(std::move(one));
    }
    // A list that was cut ends before its last number's successor.
    if (next != next_ && !chunks.empty()) next = chunks.back().at("seq").to_number<std::uint64_t>() + 1;
    json::Object out;
    out["chunks"] = std::move(chunks);
    out["nextSeq"] = next;
    out["exited"] = exited_;
    out["exitCode"] = exited_ ? json::Value(exit_code_) : json::Value();
    out["closed"] = closed_;
    out["failure"] = nullptr;
    out["sandboxDenied"] = denied_;
    held_until_ = {};
    co_return out;
}

Task<std::string> Process::write(WriteParams params)
{
    const auto self = shared_from_this();
    if (starting()) co_return "starting";
    if (!input_) co_return "stdinClosed";
    if (!known_writes_.insert(params.write_id).second) co_return "accepted";
    write_ids_.push_back(std::move(params.write_id));
    if (write_ids_.size() > kWriteIds) {
        known_writes_.erase(write_ids_.front());
        write_ids_.pop_front();
    }
    if (exited_ || params.bytes.empty()) co_return "accepted";
    unwritten_bytes_ += params.bytes.size();
    unwritten_.push_back(std::move(params.bytes));
    if (!feeding_) {
        feeding_ = true;
        asio::co_spawn(
            loop_,
            [](std::shared_ptr<Process> process) -> Task<void> { co_await process->feed_input(); }(self),
            asio::detached);
    }
    // In its turn already; the answer only waits for room, so that a client cannot fill our memory.
    while (unwritten_bytes_ > kUnwritten && !exited_) (void)co_await changed_.async_wait(as_value);
    co_return "accepted";
}

Task<void> Process::feed_input()
{
    const auto self = shared_from_this();
    while (!unwritten_.empty() && input_ && input_->is_open()) {
        const std::string bytes = std::move(unwritten_.front());
        unwritten_.pop_front();
        const auto [error, n] = co_await asio::async_write(*input_, asio::buffer(bytes), as_value);
        unwritten_bytes_ -= std::min(unwritten_bytes_, bytes.size());
        changed_.cancel();
        if (error) break;
    }
    unwritten_.clear();
    unwritten_bytes_ = 0;
    changed_.cancel();
    feeding_ = false;
}

void Process::hold() { held_until_ = now() + kHold; }

void Process::interrupt()
{
    if (starting() && pending_ == 0) pending_ = SIGINT;
    if (state_ == State::Running && !finishing_ && command_) command_->signal(SIGINT);
}

bool Process::kill()
{
    if (starting()) {
        pending_ = SIGKILL;
        return true;
    }
    if (state_ != State::Running || exited_ || !command_) return false;
    if (!finishing_) command_->kill();
    return true;
}

} // namespace berth::codex

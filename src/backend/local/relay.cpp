#include "backend/local/relay.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <csignal>
#include <memory>

#include "keeper/wire.hpp"
#include "sys/pty.hpp"
#include "sys/socket.hpp"

namespace berth::local {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr std::size_t kBuffer = 64u << 10;
constexpr auto kPace = 200us;
/// After the deadline everything inside is dead; what is in the pipes is still told, if it can be.
constexpr auto kDrain = 2s;

/// One direction: bytes read from `from` that `to` has not taken yet.
struct Channel {
    int from = -1; ///< -1: at its end
    int to = -1;   ///< -1: nobody takes it any more
    ExecEvent::Kind kind = ExecEvent::Kind::Stdout;
    // Not zeroed: most commands say little, and a page never written to costs nothing.
    std::unique_ptr<char[]> buffer = std::make_unique_for_overwrite<char[]>(kBuffer);
    std::size_t begin = 0;
    std::size_t end = 0;
    Clock::time_point not_before{};
    std::uint64_t passed = 0;
    std::uint64_t dropped = 0;
    bool never_blocks = false; ///< a regular file or /dev/null
    int poll_from = -1;        ///< places in the poll set of this round
    int poll_to = -1;

    [[nodiscard]] bool empty() const { return begin == end; }
};

bool write_never_blocks(int fd)
{
    struct stat st{};
    if (::fstat(fd, &st) != 0) return false;
    return S_ISREG(st.st_mode) || (S_ISCHR(st.st_mode) && st.st_rdev == 0x103 /* null */);
}

class Relay {
public:
    Relay(const sys::Launched& init, RelayEnds ends, const RunStreams& streams, const RelayOptions& options)
        : init_(init), ends_(std::move(ends)), streams_(streams), options_(options), start_(Clock::now())
    {
    }

    Result<RelayResult> run();

private:
    void open_channels();
    void open_terminal(UniqueFd master);
    Status read_report();
    void read_channel(Channel& channel);
    void write_channel(Channel& channel);
    void close_source(Channel& channel);
    void emit(ExecEvent::Kind kind, std::string_view bytes, ExitStatus status = ExitStatus::unknown());
    void emit_gap(std::uint64_t bytes);
    void close_output();
    void on_signals();
    void signal_init(int signo) { ::syscall(SYS_pidfd_send_signal, init_.pidfd.get(), signo, nullptr, 0); }
    [[nodiscard]] bool finished() const;
    [[nodiscard]] std::optional<std::chrono::nanoseconds> patience() const;

    const sys::Launched& init_;
    RelayEnds ends_;
    const RunStreams& streams_;
    RelayOptions options_;
    Clock::time_point start_;
    Clock::time_point killed_at_{};
    RelayResult result_;
    UniqueFd master_;
    std::vector<std::unique_ptr<Channel>> channels_;
    Channel* input_ = nullptr;
    bool init_gone_ = false;
    std::uint64_t sequence_ = 0;
};

void Relay::open_channels()
{
    const auto add = [&](int from, int to, ExecEvent::Kind kind) {
        auto channel = std::make_unique<Channel>();
        channel->from = from;
        channel->to = to;
        channel->kind = kind;
        channel->never_blocks = to >= 0 && write_never_blocks(to);
        channels_.push_back(std::move(channel));
        return channels_.back().get();
    };
    if (ends_.out) add(ends_.out.get(), streams_.out, ExecEvent::Kind::Stdout);
    if (ends_.err) add(ends_.err.get(), streams_.err, ExecEvent::Kind::Stderr);
    if (ends_.in) {
        ::fcntl(ends_.in.get(), F_SETFL, O_NONBLOCK); // our own end of our own pipe
        input_ = add(streams_.in, ends_.in.get(), ExecEvent::Kind::Start);
        if (streams_.in < 0) ends_.in.reset();
    }
}

void Relay::open_terminal(UniqueFd master)
{
    master_ = std::move(master);
    ::fcntl(master_.get(), F_SETFL, O_RDWR | O_NONBLOCK);
    auto screen = std::make_unique<Channel>();
    screen->from = master_.get();
    screen->to = streams_.out;
    screen->kind = ExecEvent::Kind::Pty;
    auto keys = std::make_unique<Channel>();
    keys->from = streams_.in;
    keys->to = master_.get();
    keys->kind = ExecEvent::Kind::Start;
    input_ = keys.get();
    channels_.push_back(std::move(screen));
    channels_.push_back(std::move(keys));
}

void Relay::emit(ExecEvent::Kind kind, std::string_view bytes, ExitStatus status)
{
    if (!streams_.on_event) return;
    ExecEvent event{.sequence = sequence_++, .kind = kind, .time = system_clock().now()};
    event.bytes = bytes;
    event.status = status;
    streams_.on_event(event);
}

void Relay::emit_gap(std::uint64_t bytes)
{
    if (!streams_.on_event) return;
    ExecEvent event{.sequence = sequence_++, .kind = ExecEvent::Kind::Gap, .time = system_clock().now()};
    event.gap_bytes = bytes;
    streams_.on_event(event);
}

/// Init is our own program, but it lives among hostile ones: its words are checked like theirs.
Status Relay::read_report()
{
    BERTH_TRY(auto message, sys::receive_message(ends_.report.get(), Bytes{sizeof(keeper::Report)}, 1));
    if (message.bytes.empty()) {
        ends_.report.reset();
        return {};
    }
    if (message.bytes.size() != sizeof(keeper::Report))
        return fail(Code::Internal, "the sandbox's init sent {} bytes", message.bytes.size());
    keeper::Report report{};
    std::memcpy(&report, message.bytes.data(), sizeof report);
    switch (report.kind) {
    case keeper::ReportKind::Terminal:
        if (message.fds.size() == 1 && options_.terminal && !master_)
            open_terminal(std::move(message.fds.front()));
        return {};
    case keeper::ReportKind::Failed: {
        const std::error_code sys(report.error, std::generic_category());
        result_.not_started =
            Error{.code = code_of_errno(report.error), .message = sys.message(), .sys = sys};
        result_.not_started->trail.push_back(
            report.step == keeper::Step::Command     ? "starting the command"
            : report.step == keeper::Step::Directory ? "entering the working directory"
            : report.step == keeper::Step::Terminal  ? "opening the terminal"
                                                     : "preparing the command");
        return {};
    }
    case keeper::ReportKind::Ended:
        if (!result_.status) result_.status = ExitStatus::from_wait(report.status);
        result_.disk_full = report.error == ENOSPC;
        return {};
    case keeper::ReportKind::Started: return {};
    }
    return fail(Code::Internal, "the sandbox's init sent an unknown report");
}

void Relay::close_source(Channel& channel)
{
    if (&channel == input_) {
        // The end of our input is the end of the command's, once everything before it is written.
        channel.from = -1;
        if (channel.empty() && !options_.terminal) {
            ends_.in.reset();
            channel.to = -1;
        }
        return;
    }
    channel.from = -1;
}

void Relay::read_channel(Channel& channel)
{
    const ssize_t n = ::read(channel.from, channel.buffer.get(), kBuffer);
    const bool empty = n < 0 && errno == EAGAIN;
    if (n < 0 && (errno == EINTR || (empty && !init_gone_))) return;
    if (n <= 0) { // EIO is how a terminal ends
        close_source(channel);
        return;
    }
    auto size = static_cast<std::size_t>(n);
    if (&channel != input_) {
        const std::uint64_t room = options_.limit.count - std::min(options_.limit.count, channel.passed);
        channel.passed += size;
        if (size > room) {
            channel.dropped += size - room;
            result_.dropped += size - room;
            size = room;
        }
        if (size == 0) return;
        emit(channel.kind, {channel.buffer.get(), size});
        if (streams_.unheard != nullptr && *streams_.unheard) return close_output();
        if (streams_.on_event || channel.to < 0) return;
        if (size < 4096 && !init_gone_) channel.not_before = Clock::now() + kPace;
    }
    channel.begin = 0;
    channel.end = size;
    write_channel(channel);
}

void Relay::close_output()
{
    for (auto& channel : channels_)
        if (channel.get() != input_ && channel->from != master_.get()) channel->from = channel->to = -1;
    ends_.out.reset();
    ends_.err.reset();
}

void Relay::write_channel(Channel& channel)
{
    while (!channel.empty()) {
        const bool ours = &channel == input_;
        // A pipe that poll calls writable takes PIPE_BUF bytes without blocking; not one more is sure.
        const std::size_t left = channel.end - channel.begin;
        const std::size_t chunk = channel.never_blocks || ours ? left : std::min<std::size_t>(left, 4096);
        if (!channel.never_blocks && !ours) {
            pollfd ready{.fd = channel.to, .events = POLLOUT, .revents = 0};
            if (::poll(&ready, 1, 0) <= 0) return;
        }
        const ssize_t n = ::write(channel.to, channel.buffer.get() + channel.begin, chunk);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (n < 0) {
            // Whoever read us is gone: closing our end tells the command so.
            if (!ours && errno != EPIPE && result_.unwritten == 0) result_.unwritten = errno;
            channel.begin = channel.end = 0;
            channel.to = -1;
            if (ours)
                ends_.in.reset();
            else if (channel.from == ends_.out.get())
                ends_.out.reset(), channel.from = -1;
            else if (channel.from == ends_.err.get())
                ends_.err.reset(), channel.from = -1;
            return;
        }
        channel.begin += static_cast<std::size_t>(n);
    }
    if (&channel == input_ && channel.from < 0) close_source(channel);
}

void Relay::on_signals()
{
    signalfd_siginfo info{};
    while (::read(ends_.signals.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
        const int signo = static_cast<int>(info.ssi_signo);
        if (signo == SIGWINCH) {
            if (const auto size = sys::window_size(streams_.in); size && master_)
                (void)sys::set_window_size(master_.get(), *size); // the next one comes with the next change
        } else {
            signal_init(signo);
        }
    }
}

bool Relay::finished() const
{
    if (!init_gone_) return false;
    if (killed_at_ != Clock::time_point{} && Clock::now() > killed_at_ + kDrain) return true;
    for (const auto& channel : channels_)
        if (channel.get() != input_ && (channel->from >= 0 || !channel->empty())) return false;
    return true;
}

/// How long poll may wait: until the deadline, or until a paced channel may be read again.
std::optional<std::chrono::nanoseconds> Relay::patience() const
{
    std::optional<Clock::time_point> until;
    const auto consider = [&](Clock::time_point t) {
        if (!until || t < *until) until = t;
    };
    if (options_.timeout && !result_.timed_out) consider(start_ + *options_.timeout);
    if (killed_at_ != Clock::time_point{}) consider(killed_at_ + kDrain);
    for (const auto& channel : channels_)
        if (channel->not_before != Clock::time_point{}) consider(channel->not_before);
    if (!until) return std::nullopt;
    return std::max(std::chrono::nanoseconds(0), std::chrono::nanoseconds(*until - Clock::now()));
}

Result<RelayResult> Relay::run()
{
    if (!options_.terminal) open_channels();
    emit(ExecEvent::Kind::Start, {});
    while (!finished()) {
        std::vector<pollfd> set;
        const auto watch = [&](int fd, short events) {
            set.push_back({.fd = fd, .events = events, .revents = 0});
            return static_cast<int>(set.size() - 1);
        };
        // Init's last words lie in the socket when it is gone: waking for them would only disturb
        // its teardown. The terminal is wanted at once.
        const bool expected = ends_.report && options_.terminal && !master_;
        const int report = expected ? watch(ends_.report.get(), POLLIN) : -1;
        const int gone = init_gone_ ? -1 : watch(init_.pidfd.get(), POLLIN);
        const int signals = ends_.signals ? watch(ends_.signals.get(), POLLIN) : -1;
        const auto now = Clock::now();
        bool draining = false; // what init left in the pipes is there to be read: no need to wait for it
        for (auto& channel : channels_) {
            channel->poll_from = channel->poll_to = -1;
            if (channel->not_before != Clock::time_point{} && channel->not_before <= now)
                channel->not_before = {};
            const bool input = channel.get() == input_;
            if (input && init_gone_) continue;
            if (!channel->empty())
                channel->poll_to = watch(channel->to, POLLOUT);
            else if (channel->from >= 0 && channel->not_before == Clock::time_point{}) {
                channel->poll_from = watch(channel->from, POLLIN);
                draining = draining || init_gone_;
            }
            // A reader that goes away is noticed even when there is nothing to tell it.
            if (input && channel->empty() && channel->to >= 0) channel->poll_to = watch(channel->to, 0);
        }
        std::optional<timespec> wait;
        if (draining)
            wait = timespec{};
        else if (const auto p = patience())
            wait = timespec{.tv_sec = p->count() / 1'000'000'000, .tv_nsec = p->count() % 1'000'000'000};
        if (::ppoll(set.data(), set.size(), wait ? &*wait : nullptr, nullptr) < 0 && errno != EINTR)
            return fail_errno("waiting for the sandbox");
        const auto ready = [&](int i) { return i >= 0 && set[static_cast<std::size_t>(i)].revents != 0; };

        if (ready(report)) BERTH_CHECK(read_report());
        if (ready(signals)) on_signals();
        for (std::size_t i = 0; i < channels_.size(); ++i) {
            Channel& channel = *channels_[i];
            if (ready(channel.poll_from) || (init_gone_ && channel.poll_from >= 0))
                read_channel(channel);
            else if (ready(channel.poll_to) && !channel.empty())
                write_channel(channel);
            else if (ready(channel.poll_to) && &channel == input_) {
                ends_.in.reset();
                channel.from = channel.to = -1;
            }
        }
        if (ready(gone)) {
            init_gone_ = true;
            for (auto& channel : channels_) channel->not_before = {};
            while (ends_.report && !result_.status && !result_.not_started) BERTH_CHECK(read_report());
        }
        if (options_.timeout && !result_.timed_out && !init_gone_ &&
            Clock::now() >= start_ + *options_.timeout) {
            result_.timed_out = true;
            killed_at_ = Clock::now();
            signal_init(SIGKILL);
        }
    }
    if (!result_.not_started) {
        if (result_.dropped > 0) emit_gap(result_.dropped);
        // Everything inside dies with init, by the same signal.
        const auto without_a_word =
            result_.timed_out ? ExitStatus::from_wait(SIGKILL) : ExitStatus::unknown();
        emit(ExecEvent::Kind::Exit, {}, result_.status.value_or(without_a_word));
        emit(ExecEvent::Kind::Closed, {});
    }
    return result_;
}

} // namespace

Result<RelayResult> relay(const sys::Launched& init, RelayEnds ends, const RunStreams& streams,
                          const RelayOptions& options)
{
    Relay loop(init, std::move(ends), streams, options);
    return loop.run();
}

} // namespace berth::local

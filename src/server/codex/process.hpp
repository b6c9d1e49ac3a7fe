#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "base/clock.hpp"
#include "server/codex/place.hpp"

namespace berth::codex {

/// Whoever wants to know what happens to processes: a session.
class Audience {
public:
    virtual ~Audience() = default;
    virtual void tell(std::string_view method, json::Object params) = 0;
    /// Returns when more output may be read: nobody falls behind further than can be kept.
    virtual Task<void> room() = 0;
};

/// One command of a session and the log of what happened to it: one number for each piece of output, for the
/// exit and for the end of its streams, without a gap. On the loop's thread alone.
class Process : public std::enable_shared_from_this<Process> {
public:
    Process(std::string id, Audience& audience, BlockingPool& pool, boost::asio::any_io_executor loop);

    [[nodiscard]] const std::string& id() const noexcept { return id_; }
    [[nodiscard]] bool starting() const noexcept { return state_ == State::Starting; }
    [[nodiscard]] bool running() const noexcept { return state_ != State::Over && !exited_; }
    [[nodiscard]] bool closed() const noexcept { return closed_; }
    [[nodiscard]] SteadyTime closed_at() const noexcept { return closed_at_; }

    /// It has been started: its streams are read from here on.
    void begin(Started started, bool tty, bool input);
    /// The session is gone: nobody is told any more.
    void forget() noexcept { audience_ = nullptr; }
    /// A client has come back and will ask what it missed. Until then, or for a moment, nothing more is read:
    /// a client keeps few pieces that come before those they follow.
    void hold();
    /// Wakes whoever waits for something to happen.
    void nudge() noexcept { changed_.cancel(); }

    /// Of its output, for whoever asks later.
    void keep_at_most(std::size_t bytes);

    /// Waits as the parameters say; `left` tells that nobody wants the answer any more.
    Task<json::Object> read(ReadParams params, std::function<bool()> left);
    /// "accepted", "stdinClosed", "starting"; returns when there is room for more.
    Task<std::string> write(WriteParams params);
    void interrupt();
    /// Whether there was anything to kill.
    bool kill();

private:
    enum class State { Starting, Running, Over };
    struct Event {
        std::uint64_t seq = 0;
        Stream stream = Stream::Stdout;
        std::string bytes;
    };
    using Descriptor = boost::asio::posix::stream_descriptor;

    Task<void> read_stream(std::shared_ptr<Descriptor> from, Stream stream);
    Task<void> feed_input();
    Task<void> await_end();
    void add_output(Stream stream, std::string_view bytes);
    void add_exit(ExitStatus status);
    void close_if_over();

    std::string id_;
    Audience* audience_;
    BlockingPool& pool_;
    boost::asio::any_io_executor loop_;
    State state_ = State::Starting;
    int pending_ = 0; ///< a signal that came before there was anything to send it to
    bool tty_ = false;
    bool confined_ = true;
    std::unique_ptr<Running> command_;
    std::shared_ptr<Descriptor> input_;
    std::deque<std::string> unwritten_;
    std::size_t unwritten_bytes_ = 0;
    bool feeding_ = false;
    std::deque<std::string> write_ids_; ///< the newest, in order
    std::set<std::string> known_writes_;
    int streams_open_ = 0;
    std::deque<Event> kept_;
    std::size_t kept_bytes_ = 0;
    std::size_t most_kept_ = 0; ///< set before it begins
    std::uint64_t next_ = 1;
    bool finishing_ = false; ///< it has ended, and what is left of it is being let go of elsewhere
    bool exited_ = false;
    bool closed_ = false;
    int exit_code_ = -1;
    bool denied_ = false;
    std::uint64_t exit_seq_ = 0;
    SteadyTime closed_at_{};
    SteadyTime held_until_{};
    boost::asio::steady_timer changed_; ///< never expires: cancelled whenever something happens
};

} // namespace berth::codex

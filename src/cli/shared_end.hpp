#pragma once

#include <string>
#include <string_view>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "base/result.hpp"
#include "base/task.hpp"

namespace berth::cli {

/// One of our own standard streams, used from the event loop.
///
/// It is shared with whoever started us, so it is never made non-blocking: that would change it for them
/// too. An epoll descriptor of our own is waited for in its place.
class SharedEnd {
public:
    enum class Use { Read, Write };
    /// Borrows the descriptor.
    [[nodiscard]] static Result<SharedEnd> open(const boost::asio::any_io_executor& loop, int fd, Use use);

    /// The next bytes, at most `most`; none at the end.
    Task<std::string> read(std::size_t most);
    /// All of them, as fast as they are taken. False: nobody reads there any more, or error() tells another
    /// reason than EPIPE.
    Task<bool> write(std::string bytes);
    [[nodiscard]] int error() const noexcept { return error_; }

private:
    enum class Kind { File, Socket, Other };
    SharedEnd(int fd, Kind kind, boost::asio::posix::stream_descriptor gate)
        : fd_(fd), kind_(kind), gate_(std::move(gate))
    {
    }
    Task<void> ready();
    [[nodiscard]] bool ready_now(short events) const;

    int fd_;
    Kind kind_;
    int error_ = 0;                              ///< errno of a write that was refused
    boost::asio::posix::stream_descriptor gate_; ///< closed for files, which are always ready
};

} // namespace berth::cli

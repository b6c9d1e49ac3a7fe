#include <unistd.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include "server/codex/wire.hpp"

namespace berth::codex {

namespace {

namespace asio = boost::asio;
constexpr auto as_value = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kLine = std::size_t{64} << 20;
constexpr std::size_t kPiece = std::size_t{64} << 10;

class LineWire final : public Wire {
public:
    LineWire(const asio::any_io_executor& loop, int in, int out) : in_(loop, in), out_(loop, out) {}

    Task<std::optional<std::string>> read() override
    {
        for (;;) {
            const auto end = buffer_.find('\n', searched_);
            if (end != std::string::npos) {
                std::string line = buffer_.substr(0, end);
                buffer_.erase(0, end + 1);
                searched_ = 0;
                if (line.ends_with('\r')) line.pop_back();
                if (line.find_first_not_of(" \t") != std::string::npos) co_return line;
                continue;
            }
            searched_ = buffer_.size();
            if (searched_ > kLine) co_return std::nullopt;
            buffer_.resize(searched_ + kPiece);
            const auto [error, n] =
                co_await in_.async_read_some(asio::buffer(buffer_.data() + searched_, kPiece), as_value);
            buffer_.resize(searched_ + n);
            if (error) co_return std::nullopt;
        }
    }

    Task<Status> write(std::string message) override
    {
        message += '\n';
        const auto [error, n] = co_await asio::async_write(out_, asio::buffer(message), as_value);
        if (error) co_return fail(Code::Unavailable, "standard output: {}", error.message());
        co_return Status{};
    }

    void probe(std::chrono::milliseconds) override {}
    void close() noexcept override
    {
        boost::system::error_code ignored;
        in_.close(ignored);
        out_.close(ignored);
    }
    [[nodiscard]] bool resumable() const noexcept override { return false; }

private:
    asio::posix::stream_descriptor in_;
    asio::posix::stream_descriptor out_;
    std::string buffer_;
    std::size_t searched_ = 0;
};

} // namespace

Result<std::unique_ptr<Wire>> make_line_wire(Task<void>::executor_type loop, int in, int out)
{
    const int reading = ::dup(in);
    const int writing = ::dup(out);
    if (reading < 0 || writing < 0) return fail_errno("using the standard streams");
    try {
        return std::make_unique<LineWire>(loop, reading, writing);
    } catch (const std::exception& e) {
        // A regular file cannot be waited for: only a pipe, a socket or a terminal carries a conversation.
        return fail(Code::Invalid, "the standard streams must be pipes, sockets or terminals: {}", e.what());
    }
}

} // namespace berth::codex

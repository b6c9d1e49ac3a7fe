#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/task.hpp"
#include "server/http/channel.hpp"
#include "server/http/pace.hpp"
#include "server/http/parser.hpp"

namespace berth::http {

/// One request and its answer. A failure of any of these means that the client is gone or has broken the
/// protocol: there is nobody left to tell.
class Exchange {
public:
    Exchange(Channel& channel, MessageParser& parser, std::string& buffer, RequestHead head);

    [[nodiscard]] const RequestHead& head() const noexcept { return head_; }

    /// All of the body. Exhausted: more than `limit` bytes.
    Task<Result<std::string>> body(std::size_t limit);
    /// The next piece of it, empty at its end.
    Task<Result<std::string>> read();
    /// Tells a client that waits to be asked for its body; read() does, too, where nothing was answered yet.
    Task<Status> invite_body();
    /// Its body is a conversation, which may be slow: each piece has its time, all of it has none.
    void let_trickle() noexcept { pace_.free(); }

    /// The whole answer.
    Task<Status> send(Response response);
    /// An answer whose body follows piece by piece: chunked, or of `length` bytes.
    Task<Status> begin(int status, Pairs headers, std::optional<std::uint64_t> length = std::nullopt);
    /// The same, chunked, for an answer whose first piece follows at once: its head goes with that.
    void begin_with_first(int status, Pairs headers);
    Task<Status> write(std::string_view bytes);
    Task<Status> finish();
    /// With a last piece.
    Task<Status> finish(std::string_view last);

    /// Returns when the client has hung up.
    Task<void> gone() { co_await channel_.gone(); }
    /// Cuts the connection, so that the client knows the answer is not complete.
    void drop() noexcept;
    /// The connection itself, for another protocol. Bytes that came early are given with it.
    [[nodiscard]] Channel& take_over(std::string& early);

    /// A header for every answer of this exchange.
    void add_header(std::string name, std::string value);

    /// body() has refused it for its size.
    [[nodiscard]] bool too_large() const noexcept { return too_large_; }
    [[nodiscard]] bool begun() const noexcept { return begun_; }
    [[nodiscard]] int status() const noexcept { return status_; }
    [[nodiscard]] std::uint64_t sent() const noexcept { return sent_; }
    /// Answered, while the client still sends.
    [[nodiscard]] bool interrupts() const noexcept { return finished_ && !dropped_ && !parser_.done(); }
    /// Another request may follow on this connection.
    [[nodiscard]] bool reusable() const noexcept { return finished_ && keep_alive_ && !dropped_; }

private:
    Task<Result<bool>> read_more();
    Task<Status> fill_buffer();
    std::string begin_head(int status, Pairs headers, std::optional<std::uint64_t> length);

    Channel& channel_;
    MessageParser& parser_;
    std::string& buffer_;
    RequestHead head_;
    Pace pace_;
    Pairs extra_;
    bool continue_asked_ = false;
    bool keep_alive_ = true;
    bool begun_ = false;
    bool chunked_ = false;
    bool bodyless_ = false;
    bool finished_ = false;
    bool dropped_ = false;
    bool too_large_ = false;
    int status_ = 0;
    std::uint64_t sent_ = 0;
    std::string unsent_; ///< a head that goes with the first piece
};

} // namespace berth::http

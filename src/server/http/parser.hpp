#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "server/http/head.hpp"

namespace berth::http {

/// What may be asked of us at most.
inline constexpr std::uint32_t kHeadLimit = 64 * 1024;

/// One message, fed as its bytes come. Ambiguous framing is an error.
class MessageParser {
public:
    enum class Kind { Request, Response };
    explicit MessageParser(Kind kind, bool expect_no_body = false);
    MessageParser(MessageParser&&) noexcept;
    MessageParser& operator=(MessageParser&&) noexcept;
    ~MessageParser();

    /// Takes bytes from the front and says how many; the rest belongs to the next message. Without a
    /// head yet, bytes that are not taken must be given again, with more behind them. Exhausted: the
    /// head is too large; Invalid: not HTTP.
    [[nodiscard]] Result<std::size_t> feed(std::string_view bytes);
    /// The stream ended: for a response whose body lasts until then.
    [[nodiscard]] Status end();

    [[nodiscard]] bool head_done() const noexcept;
    [[nodiscard]] bool done() const noexcept;
    /// Of a request, once it is done: method, target, headers, framing.
    [[nodiscard]] RequestHead take_head();
    /// Of a response.
    [[nodiscard]] int status() const noexcept;
    [[nodiscard]] Pairs& headers() noexcept;
    [[nodiscard]] bool keep_alive() const;
    /// What has come of the body since it was asked last.
    [[nodiscard]] std::string take_body();
    [[nodiscard]] bool has_body() const noexcept;

private:
    class Machine;
    template <bool request> class Typed;
    std::unique_ptr<Machine> machine_;
};

} // namespace berth::http

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

/// The framing of the Connect protocol's streams: one byte of flags, four of length, the payload.
namespace berth::connect {

inline constexpr std::uint8_t kCompressed = 0x01;
inline constexpr std::uint8_t kEndOfStream = 0x02;

struct Envelope {
    std::uint8_t flags = 0;
    std::string payload;
    [[nodiscard]] bool last() const noexcept { return (flags & kEndOfStream) != 0; }
};

[[nodiscard]] std::string encode(std::string_view payload, std::uint8_t flags = 0);

/// One that is built where it is sent from: what is appended to `out` between the two calls is its payload.
[[nodiscard]] std::size_t open_envelope(std::string& out);
void close_envelope(std::string& out, std::size_t opened, std::uint8_t flags = 0);

/// Takes bytes as they come and gives whole envelopes. A payload over the limit, an unknown flag or a
/// compressed payload (we never offer that) is an error, and nothing can be read after it.
class EnvelopeReader {
public:
    explicit EnvelopeReader(std::size_t limit) : limit_(limit) {}

    void feed(std::string_view bytes) { buffer_ += bytes; }
    /// Nothing: more bytes are needed.
    [[nodiscard]] Result<std::optional<Envelope>> next();
    /// The stream may end here: no envelope is cut in the middle.
    [[nodiscard]] bool clean() const noexcept { return buffer_.size() == offset_; }

private:
    std::size_t limit_;
    std::string buffer_;
    std::size_t offset_ = 0;
};

} // namespace berth::connect

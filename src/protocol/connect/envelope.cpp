#include "protocol/connect/envelope.hpp"

namespace berth::connect {

namespace {
constexpr std::size_t kHead = 5;
}

std::string encode(std::string_view payload, std::uint8_t flags)
{
    std::string out;
    out.reserve(kHead + payload.size());
    const auto opened = open_envelope(out);
    out += payload;
    close_envelope(out, opened, flags);
    return out;
}

std::size_t open_envelope(std::string& out)
{
    out.append(kHead, '\0');
    return out.size();
}

void close_envelope(std::string& out, std::size_t opened, std::uint8_t flags)
{
    auto size = static_cast<std::uint32_t>(out.size() - opened);
    for (std::size_t i = 1; i < kHead; ++i, size >>= 8) out[opened - i] = static_cast<char>(size & 0xff);
    out[opened - kHead] = static_cast<char>(flags);
}

Result<std::optional<Envelope>> EnvelopeReader::next()
{
    const std::string_view rest = std::string_view(buffer_).substr(offset_);
    if (rest.size() < kHead) return std::optional<Envelope>{};
    const auto flags = static_cast<std::uint8_t>(rest[0]);
    if ((flags & kCompressed) != 0)
        return fail(Code::Invalid, "a compressed envelope, and no compression was agreed on");
    if ((flags & ~kEndOfStream) != 0) return fail(Code::Invalid, "an envelope with unknown flags {}", flags);
    std::uint32_t size = 0;
    for (std::size_t i = 1; i < kHead; ++i) size = size << 8 | static_cast<unsigned char>(rest[i]);
    if (size > limit_) return fail(Code::Exhausted, "an envelope of {} bytes, the limit is {}", size, limit_);
    if (rest.size() < kHead + size) return std::optional<Envelope>{};
    Envelope out{.flags = flags, .payload = std::string(rest.substr(kHead, size))};
    offset_ += kHead + size;
    // What was read is let go of in large steps, not byte by byte.
    if (offset_ == buffer_.size() || offset_ > limit_) {
        buffer_.erase(0, offset_);
        offset_ = 0;
    }
    return out;
}

} // namespace berth::connect

#include "image/gzip.hpp"

#define ZLIB_CONST // what is read is not written to
#include <zlib.h>

#include <array>

namespace berth::image {

struct Gzip::State {
    z_stream stream{};
    bool begun = false;
    ~State()
    {
        if (begun) ::deflateEnd(&stream);
    }
};

Gzip::Gzip(std::unique_ptr<State> state) : state_(std::move(state)) {}
Gzip::Gzip(Gzip&&) noexcept = default;
Gzip& Gzip::operator=(Gzip&&) noexcept = default;
Gzip::~Gzip() = default;

Result<Gzip> Gzip::open()
{
    constexpr int kWindow = 15 + 16; // the largest, and gzip's own frame
    auto state = std::make_unique<State>();
    if (::deflateInit2(&state->stream, Z_BEST_SPEED, Z_DEFLATED, kWindow, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return fail(Code::Internal, "gzip could not be begun");
    state->begun = true;
    return Gzip(std::move(state));
}

Result<std::string> Gzip::pack(std::string_view bytes, int flush)
{
    std::string out;
    std::array<Bytef, std::size_t{64} << 10> piece{};
    auto& stream = state_->stream;
    stream.next_in = reinterpret_cast<const Bytef*>(bytes.data()); // NOLINT(*-reinterpret-cast): bytes
    stream.avail_in = static_cast<uInt>(bytes.size());
    for (;;) {
        stream.next_out = piece.data();
        stream.avail_out = static_cast<uInt>(piece.size());
        const int done = ::deflate(&stream, flush);
        if (done != Z_OK && done != Z_STREAM_END && done != Z_BUF_ERROR)
            return fail(Code::Internal, "gzip failed");
        const auto* const packed =
            reinterpret_cast<const char*>(piece.data()); // NOLINT(*-reinterpret-cast): bytes
        out.append(packed, piece.size() - stream.avail_out);
        if (stream.avail_out != 0) return out;
    }
}

Result<std::string> Gzip::add(std::string_view bytes) { return pack(bytes, Z_NO_FLUSH); }
Result<std::string> Gzip::finish() { return pack({}, Z_FINISH); }

} // namespace berth::image

#include "server/e2b/gzip.hpp"

#include <zlib.h>

#include <new>

namespace berth::e2b {

struct Gzip::Stream {
    z_stream z{};
    Stream()
    {
        constexpr int kGzip = 15 + 16, kMemory = 8;
        // It can only lack memory.
        if (::deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, kGzip, kMemory, Z_DEFAULT_STRATEGY) != Z_OK)
            throw std::bad_alloc();
    }
    ~Stream() { ::deflateEnd(&z); }
};

Gzip::Gzip() : stream_(std::make_unique<Stream>()) {}
Gzip::~Gzip() = default;

std::string Gzip::add(std::string_view bytes, Last last)
{
    auto& z = stream_->z;
    std::string in(bytes), out;
    z.next_in = reinterpret_cast<Bytef*>(in.data());
    z.avail_in = static_cast<uInt>(in.size());
    do {
        char piece[32768];
        z.next_out = reinterpret_cast<Bytef*>(&piece[0]);
        z.avail_out = sizeof piece;
        ::deflate(&z, last == Last::Yes ? Z_FINISH : Z_NO_FLUSH);
        out.append(&piece[0], sizeof piece - z.avail_out);
    } while (z.avail_out == 0);
    return out;
}

} // namespace berth::e2b

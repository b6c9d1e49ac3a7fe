#include "server/http/inflate.hpp"

#include <zlib.h>

namespace berth::http {

struct Inflater::Stream {
    z_stream z{};
    bool done = false;
    Stream() { ::inflateInit2(&z, 15 + 16); } // gzip, and nothing else
    ~Stream() { ::inflateEnd(&z); }
};

Inflater::Inflater() : stream_(std::make_unique<Stream>()) {}
Inflater::Inflater(Inflater&&) noexcept = default;
Inflater& Inflater::operator=(Inflater&&) noexcept = default;
Inflater::~Inflater() = default;
bool Inflater::done() const noexcept { return stream_->done; }

Status Inflater::feed(std::string_view bytes, std::string& out)
{
    auto& z = stream_->z;
    std::string in(bytes); // zlib's interface is older than const
    z.next_in = reinterpret_cast<Bytef*>(in.data());
    z.avail_in = static_cast<uInt>(in.size());
    while (z.avail_in > 0 && !stream_->done) {
        char piece[32768];
        z.next_out = reinterpret_cast<Bytef*>(&piece[0]);
        z.avail_out = sizeof piece;
        const int code = ::inflate(&z, Z_NO_FLUSH);
        out.append(&piece[0], sizeof piece - z.avail_out);
        if (code == Z_STREAM_END) stream_->done = true;
        if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
            return fail(Code::Invalid, "the body is not gzip");
    }
    if (stream_->done && z.avail_in > 0) return fail(Code::Invalid, "bytes behind the end of gzip");
    return {};
}

} // namespace berth::http

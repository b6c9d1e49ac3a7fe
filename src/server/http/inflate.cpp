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

Result<bool> Inflater::feed(std::string& bytes, std::string& out, std::size_t most)
{
    auto& z = stream_->z;
    z.next_in = reinterpret_cast<Bytef*>(bytes.data());
    z.avail_in = static_cast<uInt>(bytes.size());
    bool full = true; // the last piece was filled: zlib may hold more
    const std::size_t before = out.size();
    while (full && !stream_->done && out.size() - before < most) {
        char piece[32768];
        z.next_out = reinterpret_cast<Bytef*>(&piece[0]);
        z.avail_out = sizeof piece;
        const int code = ::inflate(&z, Z_NO_FLUSH);
        out.append(&piece[0], sizeof piece - z.avail_out);
        full = z.avail_out == 0 || z.avail_in > 0;
        if (code == Z_STREAM_END) stream_->done = true;
        if (code == Z_BUF_ERROR) full = false;
        if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR)
            return fail(Code::Invalid, "the body is not gzip");
    }
    bytes.erase(0, bytes.size() - z.avail_in);
    if (stream_->done && !bytes.empty()) return fail(Code::Invalid, "bytes behind the end of gzip");
    return full && !stream_->done;
}

} // namespace berth::http

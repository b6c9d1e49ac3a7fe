#include "lifecycle/zstd_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <zstd.h>

#include "base/io.hpp"

namespace berth {

namespace {

constexpr int kLevel = 3;

std::unexpected<Error> zstd_error(std::string_view what, std::size_t code)
{
    return fail(Code::Invalid, "{}: {}", what, ZSTD_getErrorName(code));
}

} // namespace

void ZstdWriter::Free::operator()(ZSTD_CCtx_s* context) const noexcept { ZSTD_freeCCtx(context); }
void ZstdReader::Free::operator()(ZSTD_DCtx_s* context) const noexcept { ZSTD_freeDCtx(context); }

ZstdWriter::ZstdWriter(UniqueFd file)
    : file_(std::move(file)), context_(ZSTD_createCCtx()), room_(ZSTD_CStreamOutSize(), '\0')
{
    ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_compressionLevel, kLevel);
    ZSTD_CCtx_setParameter(context_.get(), ZSTD_c_checksumFlag, 1);
}

Result<ZstdWriter> ZstdWriter::create(const std::string& directory, const std::string& name)
{
    UniqueFd file(::open(fmt::format("{}/{}", directory, name).c_str(),
                         O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return fail_errno("creating {}/{}", directory, name);
    return ZstdWriter(std::move(file));
}

Status ZstdWriter::compress(std::string_view bytes, bool last)
{
    ZSTD_inBuffer in{.src = bytes.data(), .size = bytes.size(), .pos = 0};
    for (;;) {
        ZSTD_outBuffer out{.dst = room_.data(), .size = room_.size(), .pos = 0};
        const auto left =
            ZSTD_compressStream2(context_.get(), &out, &in, last ? ZSTD_e_end : ZSTD_e_continue);
        if (ZSTD_isError(left) != 0) return zstd_error("compressing a snapshot", left);
        const std::string_view piece(room_.data(), out.pos);
        BERTH_CHECK(write_all(file_.get(), piece));
        hash_.update(piece);
        written_ += piece.size();
        if (last ? left == 0 : in.pos == in.size) return {};
    }
}

Status ZstdWriter::write(std::string_view bytes) { return compress(bytes, false); }

Result<ZstdWriter::Written> ZstdWriter::finish()
{
    BERTH_CHECK(compress({}, true));
    return Written{.bytes = written_, .sha256 = hash_.hex()};
}

ZstdReader::ZstdReader(UniqueFd file)
    : file_(std::move(file)), context_(ZSTD_createDCtx()), input_(ZSTD_DStreamInSize(), '\0'),
      output_(ZSTD_DStreamOutSize(), '\0')
{
}

Result<ZstdReader> ZstdReader::open(const std::string& directory, const std::string& name)
{
    UniqueFd file(::open(fmt::format("{}/{}", directory, name).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!file) return fail_errno("opening {}/{}", directory, name);
    return ZstdReader(std::move(file));
}

Result<std::string> ZstdReader::read()
{
    for (;;) {
        if (position_ == size_) {
            const ssize_t n = ::read(file_.get(), input_.data(), input_.size());
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) return fail_errno("reading a snapshot");
            if (n == 0 && !complete_) return fail(Code::Invalid, "a snapshot is cut off");
            if (n == 0) return std::string{};
            position_ = 0;
            size_ = static_cast<std::size_t>(n);
        }
        ZSTD_inBuffer in{.src = input_.data(), .size = size_, .pos = position_};
        ZSTD_outBuffer out{.dst = output_.data(), .size = output_.size(), .pos = 0};
        const auto left = ZSTD_decompressStream(context_.get(), &out, &in);
        if (ZSTD_isError(left) != 0) return zstd_error("reading a snapshot", left);
        position_ = in.pos;
        complete_ = left == 0;
        if (out.pos > 0) return output_.substr(0, out.pos);
    }
}

} // namespace berth

#include "backend/docker/packed_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <zstd.h>

#include "base/io.hpp"

namespace berth::docker {

namespace {

constexpr int kLevel = 1; // as fast as an engine saves

} // namespace

void PackedFile::Free::operator()(ZSTD_CCtx_s* context) const noexcept { ::ZSTD_freeCCtx(context); }

PackedFile::PackedFile(std::string path, UniqueFd file)
    : path_(std::move(path)), file_(std::move(file)), context_(::ZSTD_createCCtx()),
      room_(::ZSTD_CStreamOutSize(), '\0')
{
}

Result<PackedFile> PackedFile::create(const std::string& path)
{
    UniqueFd file(::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) return fail_errno("creating {}", path);
    PackedFile out(path, std::move(file));
    if (!out.context_) return fail(Code::Exhausted, "no memory to pack {}", path);
    ::ZSTD_CCtx_setParameter(out.context_.get(), ZSTD_c_compressionLevel, kLevel);
    ::ZSTD_CCtx_setParameter(out.context_.get(), ZSTD_c_checksumFlag, 1);
    return out;
}

Status PackedFile::pack(std::string_view bytes, bool last)
{
    ZSTD_inBuffer in{.src = bytes.data(), .size = bytes.size(), .pos = 0};
    for (;;) {
        ZSTD_outBuffer out{.dst = room_.data(), .size = room_.size(), .pos = 0};
        const auto left =
            ::ZSTD_compressStream2(context_.get(), &out, &in, last ? ZSTD_e_end : ZSTD_e_continue);
        if (::ZSTD_isError(left) != 0)
            return fail(Code::Internal, "packing {}: {}", path_, ::ZSTD_getErrorName(left));
        const std::string_view piece(room_.data(), out.pos);
        BERTH_CHECK(write_all(file_.get(), piece));
        hash_.update(piece);
        bytes_ += piece.size();
        if (last ? left == 0 : in.pos == in.size) return {};
    }
}

Status PackedFile::write(std::string_view bytes) { return pack(bytes, false); }

Status PackedFile::finish()
{
    BERTH_CHECK(pack({}, true));
    if (::fsync(file_.get()) != 0) return fail_errno("bringing {} to the disk", path_);
    return {};
}

} // namespace berth::docker

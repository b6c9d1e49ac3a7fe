#include "backend/docker/unpacked.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <memory>

#include <zstd.h>

#include "base/unique_fd.hpp"

namespace berth::docker {

namespace {

constexpr std::size_t kPiece = std::size_t{256} << 10;

struct Unpacking {
    UniqueFd file;
    std::unique_ptr<ZSTD_DCtx, decltype(&::ZSTD_freeDCtx)> context{::ZSTD_createDCtx(), &::ZSTD_freeDCtx};
    std::string packed = std::string(kPiece, '\0');
    ZSTD_inBuffer in{};
    bool whole = true; ///< the last frame has ended

    Result<std::string> next()
    {
        std::string out(kPiece, '\0');
        for (;;) {
            if (in.pos == in.size) {
                const ssize_t n = ::read(file.get(), packed.data(), packed.size());
                if (n < 0) return fail_errno("reading a snapshot");
                if (n == 0 && !whole) return fail(Code::Invalid, "the snapshot is cut off");
                if (n == 0) return std::string{};
                in = {.src = packed.data(), .size = static_cast<std::size_t>(n), .pos = 0};
            }
            ZSTD_outBuffer to{.dst = out.data(), .size = out.size(), .pos = 0};
            const std::size_t left = ::ZSTD_decompressStream(context.get(), &to, &in);
            if (::ZSTD_isError(left) != 0)
                return fail(Code::Invalid, "the snapshot is damaged: {}", ::ZSTD_getErrorName(left));
            whole = left == 0;
            if (to.pos == 0) continue;
            out.resize(to.pos);
            return out;
        }
    }
};

} // namespace

Result<ByteSource> unpacked(const std::string& path)
{
    auto unpacking = std::make_shared<Unpacking>();
    unpacking->file.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!unpacking->file) return fail_errno("opening {}", path);
    if (!unpacking->context) return fail(Code::Exhausted, "no memory to unpack {}", path);
    return [unpacking] { return unpacking->next(); };
}

} // namespace berth::docker

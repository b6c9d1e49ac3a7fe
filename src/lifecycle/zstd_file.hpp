#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "base/sha256.hpp"
#include "base/unique_fd.hpp"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace berth {

/// A file that is compressed while it is written, and hashed as it lies on the disk.
class ZstdWriter {
public:
    /// A new file `name` in `directory`.
    [[nodiscard]] static Result<ZstdWriter> create(const std::string& directory, const std::string& name);
    [[nodiscard]] Status write(std::string_view bytes);

    struct Written {
        std::uint64_t bytes = 0;
        std::string sha256;
    };
    /// Its end; nothing can be written afterwards.
    [[nodiscard]] Result<Written> finish();

private:
    struct Free {
        void operator()(ZSTD_CCtx_s* context) const noexcept;
    };
    explicit ZstdWriter(UniqueFd file);
    [[nodiscard]] Status compress(std::string_view bytes, bool last);

    UniqueFd file_;
    std::unique_ptr<ZSTD_CCtx_s, Free> context_;
    std::string room_;
    Sha256 hash_;
    std::uint64_t written_ = 0;
};

/// Such a file, read back piece by piece.
class ZstdReader {
public:
    [[nodiscard]] static Result<ZstdReader> open(const std::string& directory, const std::string& name);
    /// The next bytes; none at the end. A file that ends in the middle is an error.
    [[nodiscard]] Result<std::string> read();

private:
    struct Free {
        void operator()(ZSTD_DCtx_s* context) const noexcept;
    };
    explicit ZstdReader(UniqueFd file);

    UniqueFd file_;
    std::unique_ptr<ZSTD_DCtx_s, Free> context_;
    std::string input_, output_;
    std::size_t position_ = 0, size_ = 0;
    bool complete_ = true; ///< between two frames
};

} // namespace berth

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "base/sha256.hpp"
#include "base/unique_fd.hpp"

struct ZSTD_CCtx_s;

namespace berth::docker {

/// A file that is compressed while it is written, and hashed as it lies on the disk: unpacked() reads it.
class PackedFile {
public:
    [[nodiscard]] static Result<PackedFile> create(const std::string& path);
    [[nodiscard]] Status write(std::string_view bytes);
    /// Its end, on the disk; nothing can be written afterwards.
    [[nodiscard]] Status finish();

    [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
    [[nodiscard]] std::string sha256() { return hash_.hex(); }

private:
    struct Free {
        void operator()(ZSTD_CCtx_s* context) const noexcept;
    };
    PackedFile(std::string path, UniqueFd file);
    [[nodiscard]] Status pack(std::string_view bytes, bool last);

    std::string path_;
    UniqueFd file_;
    std::unique_ptr<ZSTD_CCtx_s, Free> context_;
    std::string room_;
    Sha256 hash_;
    std::uint64_t bytes_ = 0;
};

} // namespace berth::docker

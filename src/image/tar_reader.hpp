#pragma once

#include <sys/types.h>

#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "base/sha256.hpp"

namespace berth::image {

/// One member of a tar archive, as the archive tells it: every field is hostile.
struct TarEntry {
    enum class Kind { File, Directory, Symlink, Hardlink, Fifo, Socket, CharDevice, BlockDevice, Other };
    struct Xattr {
        std::string name;
        std::string value;
    };

    Kind kind = Kind::Other;
    std::string name;
    std::string target; ///< of a symbolic or hard link
    mode_t mode = 0;    ///< permission bits only
    std::int64_t uid = 0;
    std::int64_t gid = 0;
    std::int64_t size = 0;
    unsigned major = 0;
    unsigned minor = 0;
    std::optional<timespec> mtime;
    std::vector<Xattr> xattrs;
};

/// A stretch of a file's content; what lies between stretches is a hole.
struct TarBlock {
    std::int64_t offset = 0;
    std::string_view bytes; ///< valid until the next call
};

/// Reads tar (ustar, pax, GNU), plain or compressed once with gzip, zstd, xz or bzip2.
///
/// The bytes between decompressor and tar reader are metered: neither a compressed bomb nor
/// headers without end can take more than the limits.
class TarReader {
public:
    /// Borrows the descriptor, which is read from where it stands, and `digest`, which gets every byte of
    /// the tar behind the compression.
    [[nodiscard]] static Result<TarReader> open(int fd, Bytes stream_limit, Sha256* digest = nullptr);
    TarReader(TarReader&&) noexcept;
    TarReader& operator=(TarReader&&) noexcept;
    ~TarReader();

    /// False at the end of the archive. Content of the entry before that was not read is skipped.
    [[nodiscard]] Result<bool> next(TarEntry& entry);
    /// The next stretch of the present entry, or nothing at its end.
    [[nodiscard]] Result<std::optional<TarBlock>> block();
    /// Reads what comes behind the end of the archive: padding, which counts for its digest.
    [[nodiscard]] Status drain();

private:
    struct Impl;
    explicit TarReader(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> impl_;
};

} // namespace berth::image

#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "image/cache.hpp"
#include "image/stack.hpp"

namespace berth::image {

struct UnpackOptions {
    Bytes max_bytes = 16_GiB;              ///< of all files together, holes included
    std::uint64_t max_entries = 1'000'000; ///< directories that are only implied by a name included
    /// `Sandbox`: owners (0 to 65535) and set-id bits as the archive has them; for trees that lie in a
    /// closed directory and are mounted nosuid. `Maker`: everything is the caller's, no set-id bits.
    Ids ids = Ids::Maker;
    bool capabilities = false; ///< keep file capabilities; only with `Sandbox`
    /// Set: the archive is a layer of an image over these. Marks of what it removes become whiteouts and
    /// opaque directories, directories that are only implied look as they did below, and device nodes in
    /// /dev are left out.
    const Stack* below = nullptr;
};

struct UnpackReport {
    std::uint64_t entries = 0;
    std::uint64_t bytes = 0;
    std::uint64_t skipped = 0;        ///< sockets, and the nodes every /dev has
    std::uint64_t dropped_xattrs = 0; ///< trusted.*, security.*, overlay marks, or not supported there
    // Of a layer:
    std::string sha256;       ///< of the tar, uncompressed
    bool opaque_root = false; ///< nothing of the layers below is to be seen
};

/// Unpacks a tar archive that may be hostile into the directory `dest`, which belongs to nobody else.
///
/// "/x" and "./x" mean "x"; ".." is refused. No link is ever followed: an entry below a link is
/// an error, a hard link must name a regular file that came before. Of entries with the same
/// name the last wins. Device nodes are refused, but for those a root file system always has, which are
/// left out. Every error names the entry; what was unpacked until then stays, for the caller to discard.
[[nodiscard]] Result<UnpackReport> unpack_tar(int archive, int dest, const UnpackOptions& options);

} // namespace berth::image

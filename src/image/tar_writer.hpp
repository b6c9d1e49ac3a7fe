#pragma once

#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

namespace berth::image {

/// One member of a tar archive to be written.
struct TarMember {
    enum class Kind { File, Directory, Symlink, Hardlink, Fifo };

    std::string name; ///< relative; a directory without its final slash
    Kind kind = Kind::File;
    std::string target{}; ///< of a link
    unsigned mode = 0644;
    std::uint64_t uid = 0;
    std::uint64_t gid = 0;
    std::uint64_t size = 0; ///< of a file's content, holes included
    timespec modified{};
    std::vector<std::pair<std::string, std::string>> xattrs{};
};

/// A stretch of a sparse file that has data.
struct TarExtent {
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
};

/// The bytes of a POSIX tar (pax). Ours and not libarchive's, which passes each name through the locale:
/// names are bytes, and in a program without a locale it would mark every name beyond ASCII as binary.
/// Sparse files are in the form 1.0 of GNU's, which GNU tar, libarchive and Python read.
namespace tar {

/// What stands before the content of a member.
[[nodiscard]] std::string header(const TarMember& member);
/// The same of a file of which only `extents` follow, one after the other; its last extent may be empty
/// and tells where the file ends. Their sizes add up to the content that must follow.
[[nodiscard]] std::string sparse_header(const TarMember& member, const std::vector<TarExtent>& extents);
/// What fills the last block after a content of this size.
[[nodiscard]] std::string padding(std::uint64_t size);
[[nodiscard]] std::string end();

} // namespace tar

} // namespace berth::image

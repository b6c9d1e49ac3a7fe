#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "core/archive.hpp"
#include "image/tar_writer.hpp"

namespace berth::image {

/// How the ids of files are shown, and whose files may be read at all.
struct ReadIds {
    std::uint32_t first_uid = 0; ///< outside, shown as `shown`
    std::uint32_t first_gid = 0;
    std::uint32_t count = 0; ///< 0: all ids as they are
    std::uint32_t shown = 0;
    bool only_these = false; ///< what belongs to others is refused: for a reader that may read everything

    [[nodiscard]] bool holds(const struct stat& st) const noexcept
    {
        return st.st_uid - first_uid < count && st.st_gid - first_gid < count;
    }
    [[nodiscard]] std::uint64_t inside(std::uint32_t id, std::uint32_t first) const noexcept;
};

/// A tree of files as a tar, piece by piece.
///
/// The tree is hostile and changes meanwhile: each entry is looked at by descriptor before it is opened,
/// links are never followed, and nothing but regular files and directories is opened. A file that shrinks
/// is filled with zeros, one that grows is cut. Names are in order, so that equal trees give equal
/// archives; hard links are files of their own unless the whole is asked for. What cannot be read is an
/// error, for a copy with a part missing is not one.
class TreeReader {
public:
    /// `start`, an O_PATH descriptor, is a directory, or a file that becomes the one member `name`.
    [[nodiscard]] static Result<TreeReader> open(UniqueFd start, const std::string& name,
                                                 ArchiveOptions options, ReadIds ids);

    /// Appends the next bytes, about as many as `wanted`; false when all have been given.
    [[nodiscard]] Result<bool> read(std::string& out, std::size_t wanted);

private:
    struct Level {
        UniqueFd directory;
        std::string path; ///< "" or "a/b/"
        std::vector<std::string> names;
        std::size_t next = 0;
    };
    struct File {
        UniqueFd content;
        std::string path;
        std::vector<TarExtent> extents;
        std::size_t at = 0;       ///< in extents
        std::uint64_t offset = 0; ///< in the extent
        std::uint64_t stored = 0; ///< in all
    };

    TreeReader(ArchiveOptions options, ReadIds ids);
    [[nodiscard]] Status entry(std::string& out);
    [[nodiscard]] Status add(int object, const struct stat& st, const std::string& path, std::string& out);
    [[nodiscard]] Status enter(int object, std::string path);
    [[nodiscard]] Status open_file(int object, TarMember member, std::string& out);
    [[nodiscard]] Status content(std::string& out, std::size_t wanted);
    [[nodiscard]] Status check_owner(const struct stat& st, const std::string& path) const;
    [[nodiscard]] TarMember member_of(const struct stat& st, const std::string& path) const;
    [[nodiscard]] Status add_xattrs(int object, TarMember& member) const;
    void leave_out(const std::string& path, std::string_view why) const;

    ArchiveOptions options_;
    ReadIds ids_;
    std::set<std::string> skip_;
    std::vector<Level> levels_;
    File file_;
    std::map<std::pair<dev_t, ino_t>, std::string> linked_; ///< files with several names: the first
    bool ended_ = false;
};

} // namespace berth::image

#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "core/archive.hpp"
#include "image/archive_check.hpp"

namespace berth::image {

/// Unpacks an archive that check_archive accepted below `root`, a directory whose owner may be hostile and
/// at work: every parent is opened beneath it without following a link, every file made fresh. Directories
/// and files come first, links last, so that nothing is ever written through one of the archive's own.
///
/// What exists: a directory stays, with all in it; a file or link in the way of a member is replaced; a
/// directory in the way of a file or link, a parent that is a link or file and not itself a member, and
/// what is mounted below the root are refused, before anything is written. Files get the permission bits
/// of the archive but for set-id, sticky and writing by others; owner and group are the calling thread's.
class ArchiveWriter {
public:
    /// Borrows the descriptor; `members` is what check_archive found.
    ArchiveWriter(int root, std::map<std::string, ArchiveMember::Kind> members)
        : root_(root), members_(std::move(members))
    {
    }

    /// Whether all of it can be put there; changes nothing.
    [[nodiscard]] Status check();
    /// `archive` stands at its beginning.
    [[nodiscard]] Status write(int archive, const ArchiveLimits& limits);

private:
    enum class There { Directory, Nothing, Mounted };

    [[nodiscard]] Result<There> look(const std::string& path, bool as_directory);
    [[nodiscard]] Result<UniqueFd> parent(const std::string& path);
    [[nodiscard]] Status make_directory(const std::string& path, unsigned mode);
    [[nodiscard]] Status make_file(TarReader& reader, const std::string& path, const TarEntry& entry);
    [[nodiscard]] Status make_link(const std::string& path, const std::string& target);
    [[nodiscard]] Status finish();

    int root_;
    std::map<std::string, ArchiveMember::Kind> members_;
    std::map<std::string, There> seen_;
    std::map<std::string, unsigned> modes_; ///< of the directories that were made
    std::string parent_path_;
    UniqueFd parent_; ///< the last one: members of a directory follow each other
};

/// The permission bits a file or directory of an archive gets.
[[nodiscard]] unsigned extracted_mode(unsigned mode, bool directory) noexcept;

} // namespace berth::image

#pragma once

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "cli/copy_path.hpp"
#include "core/archive.hpp"

/// The side of a copy that lies on this machine. What comes from a sandbox is hostile: it is spooled, judged
/// as a whole, and unpacked without ever following a link or leaving the directory.
namespace berth::cli {

/// A file without a name in `directory`, gone with its descriptor.
[[nodiscard]] Result<UniqueFd> make_spool(const std::string& directory);
/// From its beginning again.
[[nodiscard]] Status rewind(int spool);

/// What `path` leads to, links followed: a directory or a regular file.
struct HostSource {
    UniqueFd start; ///< O_PATH
    bool directory = false;
    std::uint64_t size = 0;
};
[[nodiscard]] Result<HostSource> open_host(const std::string& path);

/// A tar of a tree, or of one file under this name.
[[nodiscard]] Result<ByteSource> host_archive(UniqueFd start, const std::string& name);

/// True when the archive is a tree and not one file.
[[nodiscard]] Result<bool> holds_tree(int spool);

[[nodiscard]] Result<bool> is_host_directory(const std::string& path);
[[nodiscard]] Status unpack_tree(int spool, const CopyTarget& target, const ArchiveLimits& limits);
/// Whether a file may take the place of `name`: of nothing, of a file, of a link to one. A device, a pipe or
/// a socket is what others use by its name; nobody who copies to /dev/null means to be rid of it.
[[nodiscard]] Status may_replace(int directory, const std::string& name);
/// Beside the old one and then in its place: the old contents or the new.
[[nodiscard]] Status unpack_file(int spool, const CopyTarget& target, const ArchiveLimits& limits);

/// The content of the one file in the archive.
[[nodiscard]] Status pass_file(int spool, const ArchiveLimits& limits, const ByteSink& sink);
/// The same as an archive again, under another name.
[[nodiscard]] Result<ByteSource> renamed_archive(UniqueFd spool, std::string name,
                                                 const ArchiveLimits& limits);

} // namespace berth::cli

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "core/archive.hpp"
#include "image/tar_reader.hpp"

namespace berth::image {

/// A member of an archive that may be unpacked.
struct ArchiveMember {
    enum class Kind { Directory, File, Link };
    Kind kind = Kind::File;
    std::string path; ///< relative and clean: "a/b"; empty for the root
};

/// The rules an archive must keep, apart from any file system. A refusal is Invalid, or Exhausted for a
/// limit, and says `archive: <reason> (member '…', limit …, actual …)`.
///
/// Refused are names that are absolute, have ".." or, where they are to be portable, a drive letter or a
/// backslash; hard links, devices, pipes and sockets; a root that is no directory; a name twice, unless
/// both times a directory; a member below one that is none.
class ArchiveRules {
public:
    explicit ArchiveRules(const ArchiveLimits& limits) : limits_(limits) {}

    /// Nothing when the member is to be left out.
    [[nodiscard]] Result<std::optional<ArchiveMember>> admit(const TarEntry& entry);
    /// Content of the present member up to `end`.
    [[nodiscard]] Status grow(const TarEntry& entry, std::uint64_t end);

    /// What was admitted and is not left out, by path.
    [[nodiscard]] std::map<std::string, ArchiveMember::Kind> members() &&;

private:
    [[nodiscard]] Status enrol(const ArchiveMember& member, const std::string& name);
    [[nodiscard]] Result<std::string> path_of(const TarEntry& entry);

    ArchiveLimits limits_;
    std::map<std::string, ArchiveMember::Kind> members_;
    std::vector<std::string> dropped_;
    std::uint64_t count_ = 0;
    std::uint64_t names_ = 0;     ///< bytes of all names
    std::uint64_t extracted_ = 0; ///< of the members before
    std::uint64_t present_ = 0;   ///< of this one
};

/// Reads the whole archive from where `fd` stands, its compressed form too, and writes nothing.
[[nodiscard]] Result<std::map<std::string, ArchiveMember::Kind>> check_archive(int fd,
                                                                               const ArchiveLimits& limits);

/// How much may come out of the decompressor: the contents, and the headers around them.
[[nodiscard]] Bytes stream_limit(const ArchiveLimits& limits);

/// True when a link at `path` with this target leads out of the tree, or may do so.
[[nodiscard]] bool leads_out(std::string_view path, std::string_view target);

} // namespace berth::image

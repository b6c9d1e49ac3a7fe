#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/unique_fd.hpp"

namespace berth {

/// One entry of a directory inside a sandbox.
struct FileEntry {
    enum class Kind { Regular, Directory, Symlink, Other };

    std::string name; ///< last component, as asked or as the directory has it
    Kind kind = Kind::Other;
    Bytes size;
    unsigned mode = 0; ///< permission bits, set-id and sticky included
    WallTime modified{};
    std::string target; ///< of a symlink, as written there
    /// Inside; nobody's (65534) where a backend cannot tell or the sandbox has no such user.
    std::uint32_t uid = 65534;
    std::uint32_t gid = 65534;
    bool operator==(const FileEntry&) const = default;
};

/// A path inside, and as whom it is reached; empty: the sandbox's own user.
struct FilePath {
    std::string path;
    std::string user;
    bool follow = true; ///< of stat_file: what a symlink leads to, not the symlink itself
};

/// Contents that are too large for a string, from a descriptor to its end.
struct FileContents {
    UniqueFd source;
    Bytes limit = 1_GiB;            ///< more is refused
    std::optional<unsigned> mode{}; ///< of a new file; else 0644
};

enum class MakeParents { No, Yes };
enum class RemoveTree { No, Yes };

} // namespace berth

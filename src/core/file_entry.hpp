#pragma once

#include <optional>
#include <string>

#include "base/bytes.hpp"
#include "base/clock.hpp"

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
    bool operator==(const FileEntry&) const = default;
};

/// A path inside, and as whom it is reached; empty: the sandbox's own user.
struct FilePath {
    std::string path;
    std::string user;
};

enum class MakeParents { No, Yes };
enum class RemoveTree { No, Yes };

} // namespace berth

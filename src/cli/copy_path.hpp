#pragma once

#include <string>

#include "base/result.hpp"

namespace berth::cli {

/// One side of a copy: `REF:path`, a path of this machine, or `-`.
struct CopyPath {
    enum class Kind { Sandbox, Host, Stream };
    Kind kind = Kind::Host;
    std::string ref; ///< of a sandbox
    std::string path;

    /// "dir/." and ".": what is in it, and not the directory itself.
    [[nodiscard]] bool contents() const;
    [[nodiscard]] bool ends_with_slash() const { return path.ends_with('/'); }
    [[nodiscard]] std::string name() const; ///< the last component
};

/// A name with a colon is a path of this machine when it starts with "/", "./" or "../".
[[nodiscard]] Result<CopyPath> parse_copy_path(const std::string& text);

[[nodiscard]] std::string join(const std::string& directory, const std::string& name);

/// Where a file or a tree is put: into a directory that is there, or under a new name.
struct CopyTarget {
    std::string directory; ///< of a file: where it lies; of a tree: its own root
    std::string name;      ///< of a file
    bool make = false;     ///< the root of a tree is not there yet
};

/// The rule of cp. `there`: `to` is a directory.
[[nodiscard]] Result<CopyTarget> file_target(const std::string& to, bool there, const std::string& name);
[[nodiscard]] CopyTarget tree_target(const std::string& to, bool there, const CopyPath& from);

} // namespace berth::cli

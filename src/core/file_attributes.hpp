#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/backend.hpp"

namespace berth {

/// Extended attributes ("user.…") of files, and what FileEntry calls other. A backend whose files have them
/// is one of these, too.
class FileAttributes {
public:
    using Set = std::map<std::string, std::string>;

    virtual ~FileAttributes() = default;

    /// Of the files of those names in a directory: the attributes whose names begin with `prefix`, without
    /// it. Files that have none, and values that are not UTF-8, are left out.
    virtual Task<Result<std::map<std::string, Set>>> read_attributes(SandboxHandle sandbox,
                                                                     FilePath directory,
                                                                     std::vector<std::string> names,
                                                                     std::string prefix) = 0;
    /// All of a regular file's with that prefix are these from now on. Unsupported: its file system has none.
    virtual Task<Status> write_attributes(SandboxHandle sandbox, FilePath file, std::string prefix,
                                          Set attributes) = 0;
    /// The file itself, not what a link leads to: the bits of its type (S_IFMT).
    virtual Task<Result<unsigned>> read_type(SandboxHandle sandbox, FilePath file) = 0;
};

} // namespace berth

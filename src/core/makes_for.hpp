#pragma once

#include "core/backend.hpp"

namespace berth {

/// A backend that can make files with the rights of one user for another, to whom they belong then. What was
/// there before belongs to whom it did.
class MakesFor {
public:
    virtual ~MakesFor() = default;

    /// As Backend::make_dir() with the parents, which are the owner's too where they are made.
    virtual Task<Status> make_dir_for(SandboxHandle sandbox, FilePath directory, std::string owner) = 0;
    /// As Backend::fill_file().
    virtual Task<Status> fill_file_for(SandboxHandle sandbox, FilePath file, FileContents contents,
                                       std::string owner) = 0;
};

} // namespace berth

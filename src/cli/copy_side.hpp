#pragma once

#include "cli/copy_path.hpp"
#include "cli/held.hpp"

namespace berth::cli {

/// The side of a copy that lies in a sandbox, which is made usable first.
class SandboxSide {
public:
    /// A path that is not absolute begins at the sandbox's working directory.
    [[nodiscard]] static Result<SandboxSide> open(Held& held, const CopyPath& where, const std::string& user);

    [[nodiscard]] const std::string& path() const { return path_; }
    /// How the sandbox was come by.
    [[nodiscard]] const Acquired& acquired() const { return acquired_; }
    /// Links followed. What is not there is none.
    [[nodiscard]] Result<bool> is_directory() const;

    /// A tar of it, or of the one file.
    [[nodiscard]] Status read(ByteSink sink) const;
    Task<Status> read_task(ByteSink sink) const;
    /// Unpacks below a directory that is there.
    [[nodiscard]] Status write(const std::string& directory, ByteSource source, ArchiveLimits limits) const;
    Task<Status> write_task(std::string directory, ByteSource source, ArchiveLimits limits) const;
    [[nodiscard]] Status write_tree(const CopyTarget& target, ByteSource source, ArchiveLimits limits) const;
    /// The root of a tree, where it is missing.
    [[nodiscard]] Status make(const CopyTarget& target) const;

    /// The error says which side it was.
    [[nodiscard]] Status named(Status done, std::string_view what) const;

private:
    SandboxSide(Held& held, Backend& backend, Acquired acquired, std::string path, std::string user)
        : held_(&held), backend_(&backend), acquired_(std::move(acquired)),
          sandbox_(Lifecycle::handle(acquired_.record)), path_(std::move(path)), user_(std::move(user))
    {
    }
    [[nodiscard]] Result<bool> directory_at(const std::string& path) const;

    Held* held_;
    Backend* backend_;
    Acquired acquired_;
    SandboxHandle sandbox_;
    std::string path_;
    std::string user_;
};

} // namespace berth::cli

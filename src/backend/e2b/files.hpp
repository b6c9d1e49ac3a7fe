#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/e2b/cloud.hpp"
#include "backend/e2b/command.hpp"
#include "core/file_entry.hpp"

namespace berth::e2b_client {

/// The files of a sandbox, touched by small commands with the rights of the user they are for. The daemon's
/// own file service is root whoever asks, knows names that are text only, and follows links as it likes; it
/// is used for one thing: to bring large contents to a temporary file. The template needs a shell, coreutils
/// and findutils, as every template of E2B's has. Calls block.
class Files {
public:
    Files(Cloud& cloud, std::string instance) : cloud_(cloud), instance_(std::move(instance)) {}

    /// At most `limit` bytes, to `sink`; Invalid when there are more, or when it is no regular file.
    [[nodiscard]] Status read(const FilePath& file, Bytes limit, const ByteSink& sink);
    [[nodiscard]] Status write(const FilePath& file, const std::string& bytes, std::optional<unsigned> mode);
    /// Into the file itself, not in its place.
    [[nodiscard]] Status fill(const FilePath& file, const ByteSource& source, std::optional<unsigned> mode);
    [[nodiscard]] Result<std::vector<FileEntry>> list(const FilePath& directory);
    [[nodiscard]] Result<FileEntry> stat(const FilePath& file);
    [[nodiscard]] Status make_dir(const FilePath& directory, MakeParents parents);
    [[nodiscard]] Status move(const FilePath& from, const std::string& to);
    [[nodiscard]] Status remove(const FilePath& file, RemoveTree tree);

    /// A command that must exit with 0; its last words are the error.
    [[nodiscard]] Result<CommandEnd> run(const Command& command, std::string_view what);
    /// A new temporary file of `user` with all of `source` in it.
    [[nodiscard]] Result<std::string> stage(const std::string& user, const ByteSource& source);

private:
    Cloud& cloud_;
    std::string instance_;
};

/// An absolute path without a NUL; a relative one begins at the root.
[[nodiscard]] Result<std::string> check_path(const std::string& path);

/// A script after a function `k`: it puts the kind of what a path leads to, as `find` has it, into t.
[[nodiscard]] std::string with_kind(std::string_view script);

/// Entries as `find -printf` writes them with kEntryFormat.
inline constexpr std::string_view kEntryFormat = R"(%f\0%y\0%s\0%m\0%T@\0%l\0%U\0%G\0)";
[[nodiscard]] Result<std::vector<FileEntry>> parse_entries(std::string_view text);

} // namespace berth::e2b_client

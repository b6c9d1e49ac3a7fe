#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/file_entry.hpp"
#include "scripted/command.hpp"

namespace berth::scripted {

/// The files of a sandbox, touched by small commands with the rights of the user they are for, where the far
/// side has no file service that knows users, names that are no text, links and modes. The root needs a
/// shell, coreutils, findutils and tar. Calls block.
class Files {
public:
    explicit Files(Hands& hands) : hands_(hands) {}

    /// At most `limit` bytes, to `sink`; Invalid when there are more, or when it is no regular file.
    [[nodiscard]] Status read(const FilePath& file, Bytes limit, const ByteSink& sink);
    /// All of it, in a file without a name below `directory`, which stands at its beginning.
    [[nodiscard]] Result<UniqueFd> read_aside(const FilePath& file, int directory);
    [[nodiscard]] Status write(const FilePath& file, const std::string& bytes, std::optional<unsigned> mode);
    /// Into the file itself, not in its place.
    [[nodiscard]] Status fill(const FilePath& file, const FileContents& contents);
    [[nodiscard]] Result<std::vector<FileEntry>> list(const FilePath& directory);
    [[nodiscard]] Result<FileEntry> stat(const FilePath& file);
    [[nodiscard]] Status make_dir(const FilePath& directory, MakeParents parents);
    [[nodiscard]] Status move(const FilePath& from, const std::string& to);
    /// The same, over what is there; see MovesOver.
    [[nodiscard]] Status move_over(const FilePath& from, const std::string& to);
    [[nodiscard]] Status remove(const FilePath& file, RemoveTree tree);

    /// A command that must exit with 0; its last words are the error.
    [[nodiscard]] Result<CommandEnd> run(const Command& command, std::string_view what);

    /// See Hands.
    [[nodiscard]] Result<std::string> stage(const std::string& user, const std::string& beside,
                                            const ByteSource& source)
    {
        return hands_.stage(user, beside, source);
    }

private:
    Hands& hands_;
};

/// An absolute path without a NUL; a relative one begins at the root.
[[nodiscard]] Result<std::string> check_path(const std::string& path);

/// A script after a function `k`: it puts the kind of what a path leads to, as `find` has it, into t.
[[nodiscard]] std::string with_kind(std::string_view script);

/// Entries as `find -printf` writes them with kEntryFormat.
inline constexpr std::string_view kEntryFormat = R"(%f\0%y\0%s\0%m\0%T@\0%l\0%U\0%G\0)";
[[nodiscard]] Result<std::vector<FileEntry>> parse_entries(std::string_view text);

} // namespace berth::scripted

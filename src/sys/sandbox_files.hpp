#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/clock.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "sys/file_credentials.hpp"

namespace berth::sys {

enum class FileKind { Regular, Directory, Symlink, Other };

struct FileEntry {
    std::string name; ///< last component, as asked or as the directory has it
    FileKind kind = FileKind::Other;
    Bytes size;
    unsigned mode = 0; ///< permission bits, set-id and sticky included
    uid_t uid = 0;     ///< host-side
    gid_t gid = 0;
    WallTime modified{};
    std::string target{}; ///< of a symlink, as written there
};

enum class Follow { No, Yes };
enum class Replace { No, Yes };
enum class Parents { Existing, Make };
enum class Depth { Entry, Tree };

/// Host-side.
struct FileOwner {
    uid_t uid = 0;
    gid_t gid = 0;
};

struct WriteOptions {
    /// Atomic: a temporary in the same directory takes the name when it is complete; a symlink of
    /// that name is replaced. InPlace: truncates the file the name leads to, or makes it.
    /// New: as Atomic, and Conflict where the name is taken.
    enum class How { Atomic, InPlace, New } how = How::Atomic;
    std::optional<unsigned> mode{};   ///< permission bits; else the old file's, else 0644. Never set-id.
    std::optional<FileOwner> owner{}; ///< of a file that InPlace makes; else the ids
};

/// The files of a sandbox, touched from outside.
///
/// The sandbox is hostile: it has symlinks to anywhere, pipes that block, and renames while we
/// look. So every path is resolved by openat2 inside the root, magic links refused; an object is
/// judged by descriptor before it is opened for real, and only regular files and directories are,
/// outside of proc, sysfs, devtmpfs and devpts. All of it happens with the given ids as fsuid and fsgid
/// and without any capability: root inside gets what the sandbox's root may have, never what host root
/// may, and what it makes belongs to the mapped id.
///
/// NotFound: certainly absent. Denied: exists or not, the ids may not. Invalid: not such a file.
class SandboxFiles {
public:
    /// `root` is a directory, usually /proc/<keeper>/root. Fails when the ids cannot be taken.
    [[nodiscard]] static Result<SandboxFiles> open(UniqueFd root, FileCredentials credentials);

    /// Keeps a descriptor open for as long as the files are in use: a lock.
    void hold(UniqueFd lock) noexcept { held_ = std::move(lock); }
    /// Whose rights are used.
    [[nodiscard]] FileOwner ids() const noexcept
    {
        return {.uid = credentials_.uid, .gid = credentials_.gid};
    }

    /// A regular file for reading, for contents too large for a string.
    [[nodiscard]] Result<UniqueFd> open_file(const std::string& path) const;
    /// All of it; a file larger than `limit` is Invalid.
    [[nodiscard]] Result<std::string> read(const std::string& path, Bytes limit) const;
    [[nodiscard]] Status write(const std::string& path, std::string_view bytes,
                               const WriteOptions& options = {}) const;
    /// What `source` (borrowed; a file, pipe or socket) yields until its end, at most `limit`.
    [[nodiscard]] Status write_from(const std::string& path, int source, Bytes limit,
                                    const WriteOptions& options = {}) const;
    /// Sorted by name, links not followed; a directory with more than `max_entries` is Invalid.
    [[nodiscard]] Result<std::vector<FileEntry>> list(const std::string& path,
                                                      std::size_t max_entries = 100'000) const;
    [[nodiscard]] Result<FileEntry> stat(const std::string& path, Follow follow = Follow::Yes) const;
    /// Parents::Make also accepts a directory that is already there, as mkdir -p does. `owner`: of what is
    /// made, given by the caller's own right to do so.
    [[nodiscard]] Status make_dir(const std::string& path, unsigned mode = 0755,
                                  Parents parents = Parents::Existing,
                                  std::optional<FileOwner> owner = std::nullopt) const;
    /// Renames the entry itself, never what a symlink leads to.
    [[nodiscard]] Status move(const std::string& from, const std::string& to,
                              Replace replace = Replace::No) const;
    /// Removes the entry itself, never what a symlink leads to.
    [[nodiscard]] Status remove(const std::string& path, Depth depth = Depth::Entry) const;

    /// `work(root)`, which has a Result, with the ids' rights, for whoever has more to do than one of these.
    template <class F> [[nodiscard]] auto run(F&& work) const
    {
        return result_as(credentials_, [&] { return work(root_.get()); });
    }

private:
    SandboxFiles(UniqueFd root, FileCredentials credentials) noexcept
        : root_(std::move(root)), credentials_(std::move(credentials))
    {
    }
    [[nodiscard]] Status fill(const std::string& path, const WriteOptions& options,
                              const std::function<Status(int file)>& filler) const;
    UniqueFd root_;
    FileCredentials credentials_;
    UniqueFd held_;
};

} // namespace berth::sys

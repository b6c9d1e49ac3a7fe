#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace berth {

/// All of it, through interruptions and short writes.
[[nodiscard]] Status write_all(int fd, std::string_view bytes);

/// Up to `limit` bytes until end of file; more is an error that names `what`.
[[nodiscard]] Result<std::string> read_to_end(int fd, Bytes limit, std::string_view what);

/// A small file by path (relative to `dir`): configuration, /proc, cgroup control files.
[[nodiscard]] Result<std::string> read_file(const std::string& path, Bytes limit = 1_MiB);
[[nodiscard]] Result<std::string> read_file_at(int dir, const std::string& path, Bytes limit = 1_MiB);

/// One write(2) to an existing file, as kernel control files want it.
[[nodiscard]] Status write_control(const std::string& path, std::string_view value);
[[nodiscard]] Status write_control_at(int dir, const std::string& path, std::string_view value);

/// Writes a temporary next to it, syncs, renames: the file is the old one or the new one.
[[nodiscard]] Status replace_file_at(int dir, const std::string& name, std::string_view bytes,
                                     unsigned mode = 0600);

/// O_PATH directory descriptor, no symlink at the last component.
[[nodiscard]] Result<UniqueFd> open_dir(const std::string& path);

/// The names in a directory, sorted, without "." and "..".
[[nodiscard]] Result<std::vector<std::string>> list_names(int dir);

/// Creates missing directories of an absolute path of our own (never one inside a sandbox).
[[nodiscard]] Status make_dirs(const std::string& path, unsigned mode);

} // namespace berth

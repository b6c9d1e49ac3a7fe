#pragma once

#include <sys/stat.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.hpp"
#include "protocol/codex/files.hpp"
#include "server/codex/binding.hpp"
#include "server/codex/file_answers.hpp"

/// The files of this machine as a bound intent shows them. Every path is resolved to a descriptor first; what
/// the descriptor really is decides, and only it is used afterwards. They block, and act with the rights of
/// the calling thread. Errors carry what the kernel would have said to a process under the same intent.
namespace berth::codex::files {

enum class Follow { No, Yes };
struct Spot;

[[nodiscard]] Result<Metadata> metadata(const Bound& bound, const std::string& path, Follow follow);
[[nodiscard]] Result<std::string> canonical(const Bound& bound, const std::string& path);
[[nodiscard]] Result<std::string> read(const Bound& bound, const std::string& path, Follow follow);
[[nodiscard]] Status write(const Bound& bound, const std::string& path, std::string_view bytes,
                           Follow follow);
[[nodiscard]] Status make_directory(const Bound& bound, const std::string& path, bool recursive,
                                    Follow follow);
[[nodiscard]] Status remove(const Bound& bound, const std::string& path, bool recursive, bool force,
                            Follow follow);
/// `source` is what `from` names, found with the rights that a process has there.
[[nodiscard]] Status copy(const Bound& bound, const Spot& source, const std::string& from,
                          const std::string& to, bool recursive);
[[nodiscard]] Result<std::vector<Entry>> list(const Bound& bound, const std::string& path);
/// A regular file, for reading; or made or emptied, for writing.
[[nodiscard]] Result<UniqueFd> open(const Bound& bound, const std::string& path, OpenParams::Mode mode);

[[nodiscard]] Result<WalkResult> walk(const Bound& bound, const WalkParams& params);

} // namespace berth::codex::files

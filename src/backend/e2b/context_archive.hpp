#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace berth::e2b_client {

/// The files of one COPY, packed.
struct ContextArchive {
    UniqueFd file; ///< a gzipped tar, at its beginning; it has no name
    std::uint64_t size = 0;
    std::string hash; ///< of names, modes and contents: 64 hexadecimal digits
};

/// What `source`, a path or a pattern (`*`, `?`, `[…]`) relative to the directory `context`, stands for, with
/// names relative to the context. What `.dockerignore` there names is left out. NotFound: nothing matches.
[[nodiscard]] Result<ContextArchive> pack_context(const std::string& context, const std::string& source);

/// Whether the lines of a `.dockerignore` leave a path out: the last that fits decides, "!" brings back.
[[nodiscard]] bool is_ignored(const std::vector<std::string>& lines, const std::string& path);

} // namespace berth::e2b_client

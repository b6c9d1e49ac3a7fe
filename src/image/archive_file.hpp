#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "image/cache.hpp"

namespace berth::image {

/// A file that a template is made from.
struct Archive {
    UniqueFd file;
    std::string path; ///< fit to be printed
    struct stat st{};
};

[[nodiscard]] Result<Archive> open_archive(const std::string& path);

/// The SHA-256 of the file, if it was read before and is the same and unchanged.
[[nodiscard]] std::optional<std::string> known_digest(const Cache& cache, const Archive& archive);
/// Spares the next one reading it, unless the file changed just now.
void remember_digest(const Cache& cache, const Archive& archive, const std::string& sha256,
                     const Clock& clock);

/// Conflict when the file is not what it was when it was opened.
[[nodiscard]] Status check_unchanged(const Archive& archive);

} // namespace berth::image

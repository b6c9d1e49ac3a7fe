#pragma once

#include <optional>
#include <string>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "image/cache.hpp"

namespace berth::image {

/// A root file system out of a tar archive.
struct TarTemplate {
    std::string dir;    ///< `<cache>/tar-<sha256>`
    std::string root;   ///< the lower layer of `/`
    std::string sha256; ///< of the archive file
    Ids ids = Ids::Maker;
};

/// Unpacks the archive once for each content, whoever else asks at the same time. An archive that was seen
/// before is not read again as long as the file is the same and unchanged.
[[nodiscard]] Result<TarTemplate> ensure_tar_template(const std::string& cache_dir, const std::string& tar,
                                                      const Progress& progress = {},
                                                      const Clock& clock = system_clock());

/// One that was unpacked before, by the hash of its archive, which need not be there any more.
[[nodiscard]] Result<std::optional<TarTemplate>> find_tar_template(const std::string& cache_dir,
                                                                   const std::string& sha256);

} // namespace berth::image

#pragma once

#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/result.hpp"
#include "image/cache.hpp"
#include "image/oci_document.hpp"

namespace berth::image {

/// A root file system out of an image.
struct OciTemplate {
    std::vector<std::string> roots; ///< lower layers of `/`, the topmost first; never empty
    oci::Defaults defaults;
    std::string identity; ///< of the contents: the chain of its topmost layer
};

/// Finds the image that `tag` names (empty: the only one) in an OCI layout, or in an archive of one or of
/// docker's, and unpacks those of its layers that are not in the cache.
[[nodiscard]] Result<OciTemplate> ensure_oci_template(const std::string& cache_dir, const std::string& path,
                                                      const std::string& tag, const Progress& progress = {},
                                                      const Clock& clock = system_clock());

/// Whether a tar archive holds an image rather than a root file system, told by its first name.
[[nodiscard]] bool is_image_archive(const std::string& path);

} // namespace berth::image

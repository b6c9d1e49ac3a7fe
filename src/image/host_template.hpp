#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "image/cache.hpp"

namespace berth::image {

/// The layers that show a sandbox the programs of this machine and none of its secrets: a skeleton
/// for `/`, and a layer of whiteouts to lie over the machine's own `/usr`.
struct HostTemplate {
    std::string dir;      ///< `<cache>/host-<fingerprint>`
    std::string skeleton; ///< the lower layer of `/`; `/usr` in it is an empty mount point
    std::string usr_mask; ///< the layer above the host's `/usr`; empty when none is needed
    std::string fingerprint;
    Ids ids = Ids::Maker;            ///< whose ids the files of the skeleton carry
    bool devices = false;            ///< the skeleton's `/dev` holds the nodes; else a `/dev` must be mounted
    std::vector<std::string> masked; ///< what `usr_mask` hides, relative to `/usr`
};

/// Finds the template for the present state of the machine, or makes it: once, whoever else
/// asks at the same time, and whole or not at all. Unsupported where `/usr` is not merged.
///
/// An ordinary user's template has no mask: to him the kernel denies what others may not read.
[[nodiscard]] Result<HostTemplate> ensure_host_template(const std::string& cache_dir,
                                                        const Progress& progress = {},
                                                        const std::string& host_root = "/");

} // namespace berth::image

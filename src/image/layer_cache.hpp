#pragma once

#include <string>
#include <vector>

#include "image/cache.hpp"
#include "image/oci_layout.hpp"

namespace berth::image::oci {

/// An unpacked layer of an image.
struct Layer {
    std::string chain;        ///< what names it: the digests of this layer and all below
    std::string root;         ///< a lower layer of an overlay
    bool opaque_root = false; ///< it shows nothing of the layers below
};

/// What a layer is kept under: SHA-256 over the layers below and its own, as the image specification
/// computes a chain id. A layer depends on those below, where directories it does not name are.
[[nodiscard]] std::string chain_id(const std::string& below, const std::string& diff_id);

[[nodiscard]] Result<std::optional<Layer>> find_layer(const Cache& cache, const std::string& chain);

/// The layers as an overlay wants them: the topmost first, nothing below an opaque one.
[[nodiscard]] std::vector<std::string> as_roots(const std::vector<Layer>& lowest_first);

/// Unpacks what is not there yet, once for each content, whoever else asks at the same time. Digests are
/// checked before and while a layer is unpacked; one that does not fit leaves nothing behind.
[[nodiscard]] Result<std::vector<Layer>> ensure_layers(const Cache& cache, const Layout& layout,
                                                       const Image& image, const Progress& progress);

} // namespace berth::image::oci

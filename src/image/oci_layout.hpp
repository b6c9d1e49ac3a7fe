#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "image/oci_document.hpp"

namespace berth::image::oci {

/// A directory that holds images: an OCI layout, or what an archive of docker's unpacks to. Hostile: names
/// are resolved below it only, and only regular files are read.
class Layout {
public:
    /// `what` names it in errors.
    Layout(UniqueFd dir, std::string what) : dir_(std::move(dir)), what_(std::move(what)) {}

    [[nodiscard]] const std::string& what() const noexcept { return what_; }
    [[nodiscard]] Result<UniqueFd> open(const std::string& path) const;
    [[nodiscard]] Result<std::string> read(const std::string& path) const;
    [[nodiscard]] bool has(const std::string& path) const;
    /// The document a descriptor names, with its size and digest checked.
    [[nodiscard]] Result<std::string> read(const Descriptor& descriptor) const;

private:
    UniqueFd dir_;
    std::string what_;
};

/// A layer that has not been looked into yet.
struct LayerFile {
    std::string path;                  ///< in the layout
    std::string diff_id;               ///< of its tar, uncompressed
    std::string sha256;                ///< of the file; empty: nobody said
    std::optional<std::uint64_t> size; ///< of the file
};

struct Image {
    Defaults defaults;
    std::vector<LayerFile> layers; ///< the lowest first; never empty
};

/// Reads index, manifest and configuration of the image that `tag` names and that runs on this machine.
[[nodiscard]] Result<Image> find_image(const Layout& layout, const std::string& tag);

} // namespace berth::image::oci

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "image/oci_document.hpp"

namespace berth::image::oci {

/// This machine's architecture as images name it: "amd64", "arm64".
[[nodiscard]] std::string machine_architecture();

/// True when somebody who asks for `wanted` means an image of this name: the whole name, its tag, or the
/// name without the registry that is usual.
[[nodiscard]] bool answers_to(std::string_view name, std::string_view wanted);

/// The one of an index that runs here. `tag` empty: there must be only one image, for however many
/// platforms. Every refusal names what there is.
[[nodiscard]] Result<Descriptor> choose(const std::vector<Descriptor>& index, const std::string& tag,
                                        const std::string& architecture = machine_architecture());

/// The same for an archive of docker's.
[[nodiscard]] Result<ArchivedImage> choose(const std::vector<ArchivedImage>& images, const std::string& tag);

/// Refuses the image of another machine. An image that does not say is taken.
[[nodiscard]] Status check_platform(const std::string& os, const std::string& architecture,
                                    const std::string& ours = machine_architecture());

} // namespace berth::image::oci

#pragma once

#include <string>

#include "core/archive.hpp"

namespace berth::docker {

/// An archive as `docker save` writes it, with one image in it, under a name of ours: loading it as it is
/// would take the names that it brings away from the images which have them. `tag` chooses one of several;
/// empty: there must be only one. What it reads is hostile; refusals come with the bytes.
[[nodiscard]] Result<ByteSource> renamed_archive(const std::string& path, const std::string& tag,
                                                 const std::string& name);

} // namespace berth::docker

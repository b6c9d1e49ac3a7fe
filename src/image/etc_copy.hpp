#pragma once

#include "base/result.hpp"
#include "image/cache.hpp"

namespace berth::image {

/// Copies the part of the host's `/etc` that programs need to run (linker cache, alternatives,
/// certificates, time zone, interpreters' settings) by an allow-list of names. Only what
/// everybody may read, never what lies behind a link: a link is copied as a link.
[[nodiscard]] Status copy_etc(int source, int target, const Progress& progress);

} // namespace berth::image

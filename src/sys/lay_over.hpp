#pragma once

#include <string_view>

#include "base/result.hpp"

namespace berth::sys {

/// Where an overlay keeps its own marks: `trusted.overlay.` of one that root mounted, `user.overlay.` of one
/// mounted with `userxattr`. The other kind are a command's own attributes and mean nothing.
inline constexpr std::string_view kTrustedMarks = "trusted.overlay.";
inline constexpr std::string_view kUserMarks = "user.overlay.";

/// Lays the layer of an overlay over `merged`, which stands for the layers below it: afterwards an overlay
/// shows with `merged` alone what it showed with both. Both are directories, borrowed.
///
/// Directories are made anew; everything else in `merged` is a hard link to the layer's own file, so neither
/// may ever be written to. The files of the layer get another name by it, which their link count and change
/// time tell; nothing else of the layer is changed. Whiteouts stay, since there is a template further down.
///
/// The layer may hold what somebody hostile made: each step starts at a descriptor, nothing is followed or
/// read. Refused are a tree deeper than 400 directories, directories we may not enter, and what an overlay
/// with redirect_dir or metacopy left. A failure leaves a part.
[[nodiscard]] Status lay_over(int layer, int merged, std::string_view marks);

} // namespace berth::sys

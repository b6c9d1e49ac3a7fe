#pragma once

#include <string_view>

namespace berth {

/// How the note of a snapshot begins that is a template: somebody counts on it by name, so it is not
/// collected for its age or size.
inline constexpr std::string_view kTemplateNote = "template ";

/// The label of a sandbox that a template is built in: of which build.
inline constexpr std::string_view kBuildLabel = "berth.build";

} // namespace berth

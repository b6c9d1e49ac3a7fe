#pragma once

#include <string_view>

#include "base/strings.hpp"

namespace berth {

/// How the note of a snapshot begins that is a template: somebody counts on it by name, so it is not
/// collected for its age or size.
inline constexpr std::string_view kTemplateNote = "template ";

/// How that of a step of a build begins, which the next build of the same step begins with.
inline constexpr std::string_view kStepNote = "build step ";

/// What somebody may write on a snapshot of his own. By its note a template is found: whoever could choose
/// that, a tenant of a server say, would put his files in the place of a template of the machine.
[[nodiscard]] inline Status check_note(std::string_view note)
{
    constexpr std::size_t kLongest = 4096;
    if (note.size() > kLongest)
        return fail(Code::Invalid, "a note of {} bytes is too long: {} at most", note.size(), kLongest);
    for (const auto begin : {kTemplateNote, kStepNote})
        if (note.starts_with(begin))
            return fail(Code::Invalid, "bad note '{}': those that begin with '{}' are berth's own",
                        printable(note, 60), begin);
    return {};
}

/// The label of a sandbox that a template is built in: of which build.
inline constexpr std::string_view kBuildLabel = "berth.build";

} // namespace berth

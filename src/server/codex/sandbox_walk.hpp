#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "protocol/codex/files.hpp"
#include "server/codex/file_answers.hpp"

namespace berth::codex {

/// A script for scripted::Command, after its functions: everything below a directory, each as a letter that
/// tells a link ("L" or "."), the kind of what it leads to, which one that is, and its path; bounded. Links
/// that lead back to where one came from are left out by find, so those to directories are told once more at
/// the end.
inline constexpr std::string_view kFindBelow = R"(
d "$1"; p=$v
k "$p"
case $t in d*) ;; *) echo 'Not a directory' >&2; exit 9;; esac
[ -r "$p" ] || { echo 'Permission denied' >&2; exit 9; }
{ find "$3" "$p/" -mindepth 1 -maxdepth "$2" \( -xtype l -printf 'L%y%D:%i\0%P\0' -o -printf '.%y%D:%i\0%P\0' \)
[ "$3" = -P ] || find -P "$p/" -mindepth 1 -maxdepth "$2" -type l -xtype d -printf 'Ld\0%P\0'
} 2>/dev/null | head -c 33554432
exit 0
)";

/// What was found in the order and within the bounds of a walk. `hidden`: paths that are not told.
[[nodiscard]] files::WalkResult walk_found(const WalkParams& params, std::string_view found,
                                           const std::function<bool(const std::string&)>& hidden);

} // namespace berth::codex

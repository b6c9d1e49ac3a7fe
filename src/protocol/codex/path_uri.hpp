#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

/// Paths on Codex's wire are file: URIs.
namespace berth::codex {

/// The absolute, normalised native path. Invalid: no file URI of a path; Unsupported: the path of
/// another platform (a host, a drive letter). Bytes that are not UTF-8 come through.
[[nodiscard]] Result<std::string> read_path(std::string_view uri);

/// The URI of an absolute native path, percent-encoded.
[[nodiscard]] std::string path_uri(std::string_view path);

} // namespace berth::codex

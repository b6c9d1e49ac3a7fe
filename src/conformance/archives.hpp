#pragma once

#include <string>

#include "conformance/context.hpp"

/// How the checks of archives pack and unpack.
namespace berth::conformance {

[[nodiscard]] Result<std::string> pack(Context& c, const SandboxHandle& sandbox, const std::string& directory,
                                       ArchiveOptions options = {});

/// In pieces of `piece` bytes.
[[nodiscard]] Status unpack(Context& c, const SandboxHandle& sandbox, const std::string& directory,
                            const std::string& bytes, ArchiveLimits limits = {},
                            std::size_t piece = 64 << 10);

/// Every entry below a directory with its kind, mode, link target and contents, sorted: equal trees are equal
/// texts.
[[nodiscard]] Result<std::string> tree_of(Context& c, const SandboxHandle& sandbox,
                                          const std::string& directory);

} // namespace berth::conformance

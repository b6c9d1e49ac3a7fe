#pragma once

#include <optional>
#include <string>
#include <string_view>

/// Links to one file that need no token: signed with it.
namespace berth::e2b {

enum class FileUse { Read, Write };

struct SignedLink {
    std::string path; ///< as in the query, not resolved
    FileUse use = FileUse::Read;
    std::string user;                      ///< empty: none is named
    std::optional<std::string> expiration; ///< as in the query
};

/// "v1_…"
[[nodiscard]] std::string signature(const SignedLink& link, std::string_view token);

} // namespace berth::e2b

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "policy/bind.hpp"

namespace berth::prove {

/// Paths that a deny pattern names, with a part of ours in them, so that nobody else's file has them.
struct Match {
    std::string planted; ///< to be put there from outside
    std::string other;   ///< never there; empty: the pattern leaves no room for a second one
    std::string beside;  ///< a directory in which a name of ours is not denied, and may be written
};

/// In one of `places`, directories that may be written; nothing where the pattern covers none of them or
/// leaves no room for a name of ours.
[[nodiscard]] std::optional<Match> find_match(const policy::BoundFiles& files, const std::string& pattern,
                                              const std::vector<std::string>& places,
                                              const std::string& token);

} // namespace berth::prove

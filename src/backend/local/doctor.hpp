#pragma once

#include <string>
#include <vector>

#include "backend/local/state_dir.hpp"

namespace berth::local {

/// One thing the local backend wants of a machine.
struct Finding {
    enum class Verdict {
        Ok,
        Weaker,  ///< it works without, with less; the detail says with what less
        Missing, ///< what needs it is refused
    };
    std::string name;
    Verdict verdict = Verdict::Ok;
    std::string detail;
    std::string remedy; ///< a command or a setting; empty when nothing is wrong
};

[[nodiscard]] std::string_view to_string(Finding::Verdict verdict) noexcept;

/// Tries everything that matters here, for the user that asks. Ends with a whole sandbox.
[[nodiscard]] std::vector<Finding> examine(const std::string& state_path);

/// Removes what killed runs left: control groups, placeholders, half-made templates, trash. Says what.
[[nodiscard]] Result<std::vector<std::string>> clean(const StateDir& state);

} // namespace berth::local

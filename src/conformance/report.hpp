#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"

namespace berth::conformance {

enum class Outcome {
    Passed,
    Unsupported, ///< not claimed, and refused as it must be
    Failed,
    Skipped, ///< cannot be told here; the message says why
};
[[nodiscard]] std::string_view to_string(Outcome outcome) noexcept;

/// What became of one check.
struct Finding {
    std::string group;
    std::string name;
    Outcome outcome = Outcome::Failed;
    std::string message; ///< what was found instead, what is not claimed, why it was skipped
    std::chrono::nanoseconds elapsed{0};
};

struct Report {
    std::string backend;
    std::vector<Finding> findings;
    std::chrono::nanoseconds elapsed{0};

    [[nodiscard]] std::size_t count(Outcome outcome) const;
    /// Something was checked and nothing failed.
    [[nodiscard]] bool ok() const { return !findings.empty() && count(Outcome::Failed) == 0; }
};

/// One line of a report: "passed       exec: …".
[[nodiscard]] std::string render_line(const Finding& finding);
/// What failed again with its message, what was skipped and why, and the counts by group and in all.
[[nodiscard]] std::string render_summary(const Report& report);
[[nodiscard]] json::Object render_json(const Report& report);

} // namespace berth::conformance

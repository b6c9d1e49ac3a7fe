#pragma once

#include <functional>
#include <string>
#include <vector>

#include "conformance/check.hpp"
#include "conformance/place.hpp"
#include "conformance/report.hpp"

namespace berth::conformance {

/// The checks of a group, of one name, or whose name holds the text; all for none. A word that fits nothing
/// is refused.
[[nodiscard]] Result<std::vector<Check>> choose(const std::vector<std::string>& only);

struct RunOptions {
    Options place;
    bool stop_at_failure = false;
    std::function<void(const Finding&)> on_finding; ///< as they come
    std::function<bool()> enough{}; ///< asked before each: what was made is removed, the rest not run
};

/// Runs them one after the other; what could not be run is a failure too.
[[nodiscard]] Result<Report> run(const BackendRegistry& registry, const std::vector<Check>& checks,
                                 const RunOptions& options);

} // namespace berth::conformance

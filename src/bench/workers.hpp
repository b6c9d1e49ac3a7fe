#pragma once

#include <functional>

#include "bench/measure.hpp"

namespace berth::bench {

using MakeCases = std::function<Result<std::vector<Case>>(Context&)>;

/// measure() in several processes at once: each makes the cases for itself, starts with the others, and
/// looks for what it left behind. The samples of all are one series a case.
[[nodiscard]] Status measure_together(Context& context, Table& table, unsigned workers, const MakeCases& make,
                                      const Pace& pace);

} // namespace berth::bench

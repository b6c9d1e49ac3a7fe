#pragma once

#include <cstddef>
#include <vector>

namespace berth::bench {

/// What a set of samples comes to. Quantiles are samples that were really seen (nearest rank).
struct Summary {
    std::size_t count = 0;
    double min = 0;
    double p50 = 0;
    double p90 = 0;
    double p95 = 0;
    double p99 = 0;
};

[[nodiscard]] Summary summarize(std::vector<double> samples);

/// The middle one; of an even number the mean of the two in the middle. Zero of none.
[[nodiscard]] double median(std::vector<double> values);

/// How far the largest lies above the smallest, as a part of the smallest: 0.4 is 40 %.
[[nodiscard]] double spread(const std::vector<double>& values);

} // namespace berth::bench

#include "bench/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace berth::bench {

namespace {

double rank(const std::vector<double>& sorted, double part)
{
    const auto wanted = static_cast<std::size_t>(std::ceil(part * static_cast<double>(sorted.size())));
    return sorted[std::clamp<std::size_t>(wanted, 1, sorted.size()) - 1];
}

} // namespace

Summary summarize(std::vector<double> samples)
{
    if (samples.empty()) return {};
    std::ranges::sort(samples);
    return {.count = samples.size(),
            .min = samples.front(),
            .p50 = rank(samples, 0.50),
            .p90 = rank(samples, 0.90),
            .p95 = rank(samples, 0.95),
            .p99 = rank(samples, 0.99)};
}

double median(std::vector<double> values)
{
    if (values.empty()) return 0;
    std::ranges::sort(values);
    const std::size_t half = values.size() / 2;
    return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double spread(const std::vector<double>& values)
{
    if (values.empty()) return 0;
    const auto [low, high] = std::ranges::minmax(values);
    if (low <= 0) return high > low ? std::numeric_limits<double>::infinity() : 0;
    return (high - low) / low;
}

} // namespace berth::bench

#pragma once

#include <algorithm>
#include <map>
#include <string>

#include "base/clock.hpp"

namespace berth::gate {

/// How many requests a tenant may make: so many a second, and a burst of ten seconds' worth.
class Rate {
public:
    /// 0: any number.
    explicit Rate(double per_second = 0) : per_second_(per_second) {}

    /// False: too many. One more may be made in about a second.
    [[nodiscard]] bool take(const std::string& tenant, SteadyTime now)
    {
        if (per_second_ <= 0) return true;
        const double most = std::max(1.0, 10 * per_second_);
        auto [at, fresh] = buckets_.try_emplace(tenant, Bucket{.left = most, .filled = now});
        auto& bucket = at->second;
        const std::chrono::duration<double> since = now - bucket.filled;
        bucket.left = std::min(most, bucket.left + since.count() * per_second_);
        bucket.filled = now;
        if (bucket.left < 1) return false;
        bucket.left -= 1;
        return true;
    }

private:
    struct Bucket {
        double left = 0;
        SteadyTime filled{};
    };
    double per_second_;
    std::map<std::string, Bucket> buckets_; ///< as many as there are tenants
};

} // namespace berth::gate

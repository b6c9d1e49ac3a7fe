#include "base/clock.hpp"

namespace berth {

namespace {

class SystemClock final : public Clock {
public:
    [[nodiscard]] WallTime now() const override { return std::chrono::system_clock::now(); }
    [[nodiscard]] SteadyTime steady() const override { return std::chrono::steady_clock::now(); }
};

} // namespace

const Clock& system_clock() noexcept
{
    static const SystemClock clock;
    return clock;
}

} // namespace berth

#include "keeping/await_execs.hpp"

#include <algorithm>
#include <thread>

namespace berth::keeping {

using namespace std::chrono_literals;

bool all_past(const std::vector<keeper::Item>& items, keeper::State state)
{
    return std::ranges::all_of(items, [&](const auto& item) { return item.state >= state; });
}

Result<std::vector<keeper::Item>> await_execs(KeeperClient& keeper, keeper::State state,
                                              std::chrono::milliseconds patience)
{
    const auto deadline = std::chrono::steady_clock::now() + patience;
    for (auto pause = 500us;; pause = std::min(pause * 2, 20'000us)) {
        BERTH_TRY(auto items, keeper.list());
        if (all_past(items, state) || std::chrono::steady_clock::now() >= deadline) return items;
        std::this_thread::sleep_for(pause);
    }
}

} // namespace berth::keeping

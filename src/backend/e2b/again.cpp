#include "backend/e2b/again.hpp"

#include <algorithm>

#include "base/strings.hpp"

namespace berth::e2b_client {

namespace {

using namespace std::chrono_literals;

constexpr auto kFirstPause = 200ms;
constexpr auto kLongestPause = 30s;

} // namespace

std::chrono::milliseconds usual_pause(int tries) { return kFirstPause * (1 << tries); }

std::optional<std::chrono::milliseconds> pause_asked(const http_client::HttpAnswer& answer, int tries)
{
    if (answer.status != 429 && answer.status != 503) return std::nullopt;
    const auto usual = usual_pause(tries);
    const auto wish = parse_int(answer.header("retry-after"), 0, 1 << 20, "Retry-After");
    if (!wish) return answer.status == 429 ? std::max<std::chrono::milliseconds>(usual, 1s) : usual;
    const std::chrono::seconds asked(*wish);
    if (asked > kLongestPause) return std::nullopt;
    return std::max<std::chrono::milliseconds>(asked, 50ms);
}

} // namespace berth::e2b_client

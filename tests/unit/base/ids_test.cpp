#include "base/ids.hpp"

#include <set>
#include <string>

#include <gtest/gtest.h>

namespace berth {
namespace {

struct FixedClock final : Clock {
    std::chrono::milliseconds since_epoch{0};
    [[nodiscard]] WallTime now() const override { return WallTime(since_epoch); }
    [[nodiscard]] SteadyTime steady() const override { return SteadyTime(since_epoch); }
};

/// The 128 bits of an id, as the alphabet has them.
std::array<unsigned, 128> bits_of(std::string_view bare)
{
    constexpr std::string_view alphabet = "0123456789abcdefghjkmnpqrstvwxyz";
    std::string all;
    for (const char c : bare)
        for (int b = 4; b >= 0; --b) all += static_cast<char>('0' + (alphabet.find(c) >> b & 1));
    std::array<unsigned, 128> bits{};
    for (std::size_t i = 0; i < 128; ++i) bits[i] = all[i + 2] == '1' ? 1 : 0;
    return bits;
}

unsigned number(const std::array<unsigned, 128>& bits, std::size_t from, std::size_t count)
{
    unsigned out = 0;
    for (std::size_t i = from; i < from + count; ++i) out = out << 1 | bits[i];
    return out;
}

TEST(Ids, AreOfTheirKind)
{
    const auto& clock = system_clock();
    EXPECT_TRUE(is_id(make_sandbox_id(clock), "sbx_"));
    EXPECT_TRUE(is_id(make_exec_id(clock), "exec_"));
    EXPECT_TRUE(is_id(make_snapshot_id(clock), "snap_"));
    EXPECT_TRUE(is_id(make_bare_id(clock), ""));
    EXPECT_FALSE(is_id(make_sandbox_id(clock), "exec_"));
}

TEST(Ids, AreUuidsOfVersionSeven)
{
    FixedClock clock;
    clock.since_epoch = std::chrono::milliseconds(0x0123'4567'89ab);
    const auto bits = bits_of(make_bare_id(clock));
    EXPECT_EQ(number(bits, 0, 16), 0x0123u);
    EXPECT_EQ(number(bits, 16, 32), 0x456789abu);
    EXPECT_EQ(number(bits, 48, 4), 7u) << "version";
    EXPECT_EQ(number(bits, 64, 2), 2u) << "variant";
}

TEST(Ids, SortByTime)
{
    FixedClock clock;
    std::string last;
    for (const std::int64_t at : {1ll, 2ll, 1'700'000'000'000ll, 1'700'000'000'001ll,
                                  9'000'000'000'000ll /* the last century nanoseconds reach */}) {
        clock.since_epoch = std::chrono::milliseconds(at);
        const auto id = make_bare_id(clock);
        EXPECT_LT(last, id);
        last = id;
    }
}

TEST(Ids, DifferWithinAMillisecond)
{
    const FixedClock clock;
    std::set<std::string> seen;
    for (int i = 0; i < 1000; ++i) seen.insert(make_bare_id(clock));
    EXPECT_EQ(seen.size(), 1000u);
}

TEST(Ids, RefuseEverythingElse)
{
    const std::string good = make_sandbox_id(system_clock());
    EXPECT_FALSE(is_id("", "sbx_"));
    EXPECT_FALSE(is_id("sbx_", "sbx_"));
    EXPECT_FALSE(is_id(good + "0", "sbx_"));
    EXPECT_FALSE(is_id(good.substr(0, good.size() - 1), "sbx_"));
    for (const char bad : {'/', '.', ':', 'A', 'i', 'l', 'o', 'u', '\0', '\n', '-'}) {
        std::string id = good;
        id.back() = bad;
        EXPECT_FALSE(is_id(id, "sbx_")) << static_cast<int>(bad);
    }
}

TEST(RandomHex, HasTwoDigitsAByte)
{
    EXPECT_EQ(random_hex(0), "");
    const auto hex = random_hex(16);
    EXPECT_EQ(hex.size(), 32u);
    EXPECT_EQ(hex.find_first_not_of("0123456789abcdef"), std::string::npos);
    EXPECT_NE(hex, random_hex(16));
}

} // namespace
} // namespace berth

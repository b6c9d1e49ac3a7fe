#include "base/strings.hpp"

#include <gtest/gtest.h>

namespace berth {
namespace {

TEST(ParseBytes, TakesBinaryUnits)
{
    EXPECT_EQ(parse_bytes("512")->count, 512u);
    EXPECT_EQ(parse_bytes("64K")->count, 65536u);
    EXPECT_EQ(parse_bytes("64KiB")->count, 65536u);
    EXPECT_EQ(parse_bytes("1.5GiB")->count, 1610612736u);
    EXPECT_EQ(parse_bytes("2g")->count, 2147483648u);
}

TEST(ParseBytes, RefusesWhatIsNotASize)
{
    for (const char* bad : {"", "x", "-1", "1Q", "1 K", "1..5M", "1e9", "99999999999T", "0x10", "."}) {
        const auto size = parse_bytes(bad);
        ASSERT_FALSE(size) << bad;
        EXPECT_EQ(size.error().code, Code::Invalid) << bad;
    }
}

TEST(ParseDuration, TakesTheUsualUnits)
{
    using namespace std::chrono_literals;
    EXPECT_EQ(*parse_duration("250ms"), 250ms);
    EXPECT_EQ(*parse_duration("30"), 30s);
    EXPECT_EQ(*parse_duration("1.5m"), 90s);
    EXPECT_EQ(*parse_duration("2h"), 2h);
    EXPECT_FALSE(parse_duration("-1s"));
    EXPECT_FALSE(parse_duration("1 s"));
    EXPECT_FALSE(parse_duration("soon"));
}

TEST(Show, IsExactAndShort)
{
    using namespace std::chrono_literals;
    EXPECT_EQ(show(64_MiB), "64 MiB");
    EXPECT_EQ(show(Bytes{1536}), "1536 B");
    EXPECT_EQ(show(std::chrono::nanoseconds(90s)), "90s");
    EXPECT_EQ(show(std::chrono::nanoseconds(2h)), "2h");
    EXPECT_EQ(show(std::chrono::nanoseconds(0)), "0ns");
}

TEST(Nearest, SuggestsOnlyWhatIsNear)
{
    const std::vector<std::string> words{"--workspace", "--workdir", "--memory"};
    EXPECT_EQ(nearest("--worksapce", words), "--workspace");
    EXPECT_EQ(nearest("--memroy", words), "--memory");
    EXPECT_EQ(nearest("--colour", words), "");
}

TEST(Printable, CannotSteerATerminal)
{
    EXPECT_EQ(printable("a\033[31mb"), "a\\x1b[31mb");
    EXPECT_EQ(printable("x\xc2\x9bz"), "x\\xc2\\x9bz");
    EXPECT_EQ(printable("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
    EXPECT_EQ(printable("\xff\xfe"), "\\xff\\xfe");
    EXPECT_EQ(printable("a\u202etxt.exe"), "a\\xe2\\x80\\xaetxt.exe");
    EXPECT_EQ(printable("a\u2028b\u2066c"), "a\\xe2\\x80\\xa8b\\xe2\\x81\\xa6c");
    EXPECT_EQ(printable("a\u2026\u2030\u4e16"), "a\u2026\u2030\u4e16");
    EXPECT_EQ(printable("aaaa", 2), "aa…");
}

} // namespace
} // namespace berth

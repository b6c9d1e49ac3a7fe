#include "base/encoding.hpp"

#include <gtest/gtest.h>

namespace berth {
namespace {

TEST(Base64, IsThatOfTheStandard)
{
    // RFC 4648, section 10.
    EXPECT_EQ(base64_encode(""), "");
    EXPECT_EQ(base64_encode("f"), "Zg==");
    EXPECT_EQ(base64_encode("fo"), "Zm8=");
    EXPECT_EQ(base64_encode("foo"), "Zm9v");
    EXPECT_EQ(base64_encode("foob"), "Zm9vYg==");
    EXPECT_EQ(base64_encode("fooba"), "Zm9vYmE=");
    EXPECT_EQ(base64_encode("foobar"), "Zm9vYmFy");
}

TEST(Base64, TakesEveryByte)
{
    EXPECT_EQ(base64_encode(std::string_view("\xfb\xff\xfe", 3)), "+//+");
    EXPECT_EQ(base64_encode(std::string_view("\0\0\0\0", 4)), "AAAAAA==");
}

TEST(Base64, ComesBackWhateverItsLength)
{
    std::string bytes;
    for (int i = 0; i < 520; ++i) {
        const auto digits = base64_encode(bytes);
        EXPECT_EQ(digits.size(), (bytes.size() + 2) / 3 * 4);
        EXPECT_EQ(base64_decode(digits), bytes) << i;
        std::string behind = "something before";
        base64_append(behind, bytes);
        EXPECT_EQ(behind, "something before" + digits);
        bytes += static_cast<char>(i * 7);
    }
    EXPECT_EQ(base64_decode("-_-_"), std::string("\xfb\xff\xbf"));
    EXPECT_FALSE(base64_decode("ab\xff="));
    EXPECT_FALSE(base64_decode("ab c"));
}

TEST(Hex, HasTwoSmallDigitsForEachByte)
{
    EXPECT_EQ(hex_encode(std::string_view("\0\x7f\xab\xff", 4)), "007fabff");
    EXPECT_EQ(hex_decode(hex_encode("any bytes")), "any bytes");
}

} // namespace
} // namespace berth

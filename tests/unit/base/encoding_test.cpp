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

} // namespace
} // namespace berth

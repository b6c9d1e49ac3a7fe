#include "protocol/connect/envelope.hpp"

#include <gtest/gtest.h>

namespace berth::connect {
namespace {

TEST(Envelope, LengthIsBigEndian)
{
    EXPECT_EQ(encode("hi"), std::string("\0\0\0\0\x02hi", 7));
    EXPECT_EQ(encode("{}", kEndOfStream), std::string("\x02\0\0\0\x02{}", 7));
}

TEST(Envelope, ComesWholeHoweverItsBytesCome)
{
    const std::string bytes = encode("first") + encode("") + encode("{}", kEndOfStream);
    EnvelopeReader reader(100);
    std::vector<std::string> seen;
    for (const char byte : bytes) {
        reader.feed(std::string_view(&byte, 1));
        const auto next = reader.next();
        ASSERT_TRUE(next);
        if (*next) seen.push_back((*next)->payload);
    }
    EXPECT_EQ(seen, (std::vector<std::string>{"first", "", "{}"}));
    EXPECT_TRUE(reader.clean());
}

TEST(Envelope, OneThatIsCutIsNotClean)
{
    EnvelopeReader reader(100);
    reader.feed(encode("hello").substr(0, 7));
    const auto next = reader.next();
    ASSERT_TRUE(next);
    EXPECT_FALSE(*next);
    EXPECT_FALSE(reader.clean());
}

TEST(Envelope, RefusesWhatIsTooLongBeforeItCame)
{
    EnvelopeReader reader(10);
    reader.feed(std::string("\0\0\0\0\x0b", 5));
    const auto next = reader.next();
    ASSERT_FALSE(next);
    EXPECT_EQ(next.error().code, Code::Exhausted);
}

TEST(Envelope, RefusesCompressionAndUnknownFlags)
{
    for (const char flags : {'\x01', '\x04', '\x80'}) {
        EnvelopeReader reader(10);
        reader.feed(std::string{flags, '\0', '\0', '\0', '\0'});
        EXPECT_FALSE(reader.next()) << int{flags};
    }
}

} // namespace
} // namespace berth::connect

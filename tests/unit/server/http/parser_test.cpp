#include "server/http/parser.hpp"

#include <gtest/gtest.h>

namespace berth::http {
namespace {

Result<MessageParser> parsed(std::string_view text)
{
    MessageParser parser(MessageParser::Kind::Request);
    BERTH_TRY([[maybe_unused]] const auto used, parser.feed(text));
    return parser;
}

TEST(HttpParser, ReadsAHeadAndAChunkedBody)
{
    auto parser =
        parsed("POST /a/b%20c?x=1+2&y=%2F HTTP/1.1\r\nHost: h:1\r\nTransfer-Encoding: chunked\r\n\r\n"
               "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
    ASSERT_TRUE(parser) << parser.error().line();
    EXPECT_TRUE(parser->done());
    auto head = parser->take_head();
    ASSERT_TRUE(split_target(head));
    EXPECT_EQ(head.method, "POST");
    EXPECT_EQ(head.path, "/a/b%20c");
    EXPECT_EQ(head.segments, (std::vector<std::string>{"a", "b c"}));
    EXPECT_EQ(*head.parameter("x"), "1 2");
    EXPECT_EQ(*head.parameter("y"), "/");
    EXPECT_TRUE(head.chunked);
    EXPECT_EQ(head.host(), "h");
    EXPECT_EQ(parser->take_body(), "abcde");
}

TEST(HttpParser, ComesWholeByteByByte)
{
    const std::string text = "PUT /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello";
    MessageParser parser(MessageParser::Kind::Request);
    std::string waiting;
    for (const char byte : text) {
        waiting += byte;
        const auto used = parser.feed(waiting);
        ASSERT_TRUE(used) << used.error().line();
        waiting.erase(0, *used);
    }
    EXPECT_TRUE(parser.done());
    EXPECT_EQ(parser.take_body(), "hello");
}

TEST(HttpParser, LeavesTheNextRequestAlone)
{
    const std::string one = "GET /1 HTTP/1.1\r\nHost: h\r\n\r\n";
    MessageParser parser(MessageParser::Kind::Request);
    const auto used = parser.feed(one + "GET /2 HTTP/1.1\r\n\r\n");
    ASSERT_TRUE(used);
    EXPECT_EQ(*used, one.size());
}

TEST(HttpParser, RefusesWhatTwoReadersWouldReadDifferently)
{
    for (const std::string_view bad :
         {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
          "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
          "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
          "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5x\r\n\r\nhello", "nonsense\r\n\r\n",
          "GET / HTTP/1.1\r\nBad Header: x\r\n\r\n", "GET / HTTP/1.1\r\nA: b\x01\r\n\r\n",
          "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"}) {
        EXPECT_FALSE(parsed(bad)) << bad;
    }
}

TEST(HttpParser, RefusesAHeadThatIsTooLarge)
{
    const auto parser = parsed("GET / HTTP/1.1\r\nA: " + std::string(kHeadLimit, 'x') + "\r\n\r\n");
    ASSERT_FALSE(parser);
    EXPECT_EQ(parser.error().code, Code::Exhausted);
}

TEST(HttpHead, ATargetIsAPath)
{
    for (const auto* const bad : {"", "a", "*", "/%", "/%zz", "/a%00b", "/?x=%"}) {
        RequestHead head{.target = bad};
        EXPECT_FALSE(split_target(head)) << bad;
    }
    RequestHead head{.target = "http://h:1/x/", .headers = {{"Host", "H:1"}}};
    ASSERT_TRUE(split_target(head));
    RequestHead foreign{.target = "http://other/x/", .headers = {{"Host", "h"}}};
    EXPECT_FALSE(split_target(foreign));
    EXPECT_EQ(head.segments, (std::vector<std::string>{"x"}));
}

TEST(HttpHead, AValueCannotBecomeAHeader)
{
    const auto text = render_head(200, {{"X", "a\r\nEvil: 1"}}, Framing::Length, 0, true);
    EXPECT_EQ(text.find("\nEvil"), std::string::npos);
    EXPECT_NE(text.find("X: aEvil: 1\r\n"), std::string::npos);
}

TEST(HttpParser, AnAnswerWithoutALengthLastsUntilTheEnd)
{
    MessageParser parser(MessageParser::Kind::Response);
    ASSERT_TRUE(parser.feed("HTTP/1.1 200 OK\r\n\r\nhello"));
    EXPECT_FALSE(parser.done());
    EXPECT_TRUE(parser.end());
    EXPECT_EQ(parser.take_body(), "hello");
    EXPECT_EQ(parser.status(), 200);
}

} // namespace
} // namespace berth::http

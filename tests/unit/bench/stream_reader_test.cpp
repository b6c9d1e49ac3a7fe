#include "bench/stream_reader.hpp"

#include <gtest/gtest.h>

#include "base/encoding.hpp"

namespace berth::bench {
namespace {

std::string framed(const std::string& text)
{
    std::string out(1, '\0');
    for (const int shift : {24, 16, 8, 0}) out += static_cast<char>(text.size() >> shift & 0xff);
    return out + text;
}

std::string chunk(const std::string& bytes) { return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes); }

std::string output(std::size_t size)
{
    return framed(R"({"event":{"data":{"stdout":")" + base64_encode(std::string(size, 'x')) + R"("}}})");
}

/// An answer whose chunks end in the middle of messages, and what it has of output.
std::string answer(std::size_t& expected)
{
    std::string body = framed(R"({"event":{"start":{"pid":7}}})");
    for (const std::size_t size : {1u, 2u, 3u, 1000u, 40'000u}) {
        body += output(size);
        expected += size;
    }
    body += framed(R"({"event":{"end":{"exited":true,"status":"exit status 0"}}})") + framed("{}");
    std::string out = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (std::size_t at = 0; at < body.size(); at += 777) out += chunk(body.substr(at, 777));
    return out + "0\r\n\r\n";
}

TEST(StreamReader, CountsOutputHoweverItsBytesCome)
{
    std::size_t expected = 0;
    const std::string bytes = answer(expected);
    for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, std::size_t{4096}, bytes.size()}) {
        StreamReader reader;
        for (std::size_t at = 0; at < bytes.size(); at += piece) {
            EXPECT_FALSE(reader.complete());
            ASSERT_TRUE(reader.take(std::string_view(bytes).substr(at, piece)));
        }
        EXPECT_TRUE(reader.complete()) << piece;
        EXPECT_TRUE(reader.ended_well()) << piece;
        EXPECT_EQ(reader.output(), expected) << piece;
    }
}

TEST(StreamReader, ARefusalIsNoStream)
{
    StreamReader reader;
    EXPECT_FALSE(reader.take("HTTP/1.1 401 Unauthorized\r\n\r\n"));
}

} // namespace
} // namespace berth::bench

#include "protocol/codex/http.hpp"

#include <gtest/gtest.h>

namespace berth::codex {

namespace {

Result<HttpParams> read(const char* text)
{
    auto value = json::parse(text);
    EXPECT_TRUE(value) << text;
    return read_http(*value);
}

} // namespace

TEST(HttpParams, AreReadWithTheirDefaults)
{
    const auto bare = read(R"({"method":"get","url":"http://x/","requestId":"r"})");
    ASSERT_TRUE(bare) << bare.error().line();
    EXPECT_EQ(bare->method, "GET");
    EXPECT_EQ(bare->redirect, HttpParams::Redirect::Follow);
    EXPECT_FALSE(bare->stream || bare->timeout || !bare->body.empty() || !bare->headers.empty());
    const auto full =
        read(R"({"method":"POST","url":"http://x/","requestId":"r","headers":[{"name":"X-A","value":"b"}],
        "bodyBase64":"aGk=","timeoutMs":5,"redirectPolicy":"stop","streamResponse":true,"new":1})");
    ASSERT_TRUE(full) << full.error().line();
    EXPECT_EQ(full->body, "hi");
    EXPECT_EQ(full->headers, (std::vector<std::pair<std::string, std::string>>{{"x-a", "b"}}));
    EXPECT_EQ(full->timeout, std::chrono::milliseconds(5));
    EXPECT_TRUE(full->stream && full->redirect == HttpParams::Redirect::Stop);
}

TEST(HttpParams, RefuseWhatWouldBeAnotherRequest)
{
    for (const char* header :
         {R"({"name":"Host","value":"x"})", R"({"name":"content-length","value":"1"})",
          R"({"name":"TE","value":"x"})", R"({"name":"Proxy-Authorization","value":"x"})",
          R"({"name":"X","value":"a\r\nY: b"})", R"({"name":"X Y","value":"a"})",
          R"({"name":"","value":"a"})", R"({"name":"X","value":"a\u0000"})",
          R"({"name":"X","value":"","valueEnvVar":"HOME"})"})
        EXPECT_FALSE(
            read(fmt::format(R"({{"method":"GET","url":"http://x","requestId":"r","headers":[{}]}})", header)
                     .c_str()))
            << header;
    for (const char* method : {"TRACE", "CONNECT", "", "GET\\r\\n"})
        EXPECT_FALSE(
            read(fmt::format(R"({{"method":"{}","url":"http://x","requestId":"r"}})", method).c_str()))
            << method;
}

} // namespace berth::codex

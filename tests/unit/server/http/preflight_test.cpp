#include "server/http/preflight.hpp"

#include <gtest/gtest.h>

namespace berth::http {
namespace {

std::string allowed(const std::string& asked)
{
    RequestHead head;
    if (!asked.empty()) head.headers.emplace_back("access-control-request-headers", asked);
    for (const auto& [name, value] : preflight(head).headers)
        if (name == "Access-Control-Allow-Headers") return value;
    return {};
}

TEST(Preflight, AllowsByNameWhatIsAskedFor)
{
    EXPECT_EQ(allowed("authorization,x-access-token ,  keepalive-ping-interval"),
              "authorization, x-access-token, keepalive-ping-interval");
}

TEST(Preflight, NamesAuthorizationWhereNothingIsAskedFor)
{
    EXPECT_NE(allowed("").find("Authorization"), std::string::npos);
    EXPECT_EQ(allowed("").find('*'), std::string::npos);
}

TEST(Preflight, AnswersWithNothingButNames)
{
    EXPECT_EQ(allowed("a b, \"x\", good, ,evil:1"), "good");
    EXPECT_EQ(allowed(std::string(5000, 'a')), allowed(""));
}

} // namespace
} // namespace berth::http

#include "protocol/e2b/sandbox.hpp"

#include <gtest/gtest.h>

namespace berth::e2b {
namespace {

using namespace std::chrono_literals;

TEST(E2bSandbox, DefaultsDifferBetweenVersions)
{
    const auto two = read_new_sandbox(R"({"templateID":"base"})", ApiVersion::V2);
    ASSERT_TRUE(two);
    EXPECT_EQ(two->timeout, 300s);
    EXPECT_TRUE(two->secure);
    const auto one = read_new_sandbox(R"({"templateID":"base"})", ApiVersion::V1);
    ASSERT_TRUE(one);
    EXPECT_EQ(one->timeout, 15s);
    EXPECT_FALSE(one->secure);
}

TEST(E2bSandbox, RefusesWhatCanNeverBe)
{
    for (const auto* const bad :
         {R"({})", R"({"templateID":""})", R"({"templateID":"b","timeout":0})",
          R"({"templateID":"b","timeout":-1})", R"({"templateID":"b","autoPauseMemory":false})",
          R"({"templateID":"b","autoPause":true,"autoPauseMemory":false,"autoResume":{"enabled":true}})",
          R"({"templateID":"b","metadata":{"a":1}})", R"([])", R"(x)"})
        EXPECT_FALSE(read_new_sandbox(bad, ApiVersion::V2)) << bad;
}

TEST(E2bSandbox, NetworkIsAllOrNothing)
{
    const auto read = [](const char* network) {
        return read_new_sandbox(std::string(R"({"templateID":"b","network":)") + network + "}",
                                ApiVersion::V2);
    };
    EXPECT_EQ(read(R"({"denyOut":["0.0.0.0/0"]})")->allow_internet, false);
    EXPECT_FALSE(read("{}")->allow_internet);
    for (const auto* const finer : {R"({"allowOut":["1.1.1.1"]})", R"({"denyOut":["10.0.0.0/8"]})",
                                    R"({"rules":{"a.b":[]}})", R"({"egressProxy":{"address":"a:1"}})"})
        EXPECT_FALSE(read(finer)) << finer;
    EXPECT_TRUE(read(R"({"allowOut":[]})"));
}

TEST(E2bSandbox, AnAnswerHasEveryFieldAClientNeeds)
{
    SandboxView view{.id = "iabc", .template_id = "base"};
    const auto made = sandbox_json(view);
    for (const auto* const name : {"sandboxID", "templateID", "clientID", "envdVersion"})
        EXPECT_TRUE(made.contains(name)) << name;
    EXPECT_TRUE(made.at("trafficAccessToken").is_null());
    EXPECT_FALSE(made.contains("envdAccessToken"));
    view.token = "t";
    EXPECT_EQ(sandbox_json(view).at("envdAccessToken").as_string(), "t");
    EXPECT_FALSE(listed_json(view).contains("envdAccessToken"));
    EXPECT_EQ(detail_json(view).at("allowInternetAccess").as_bool(), false);
}

TEST(E2bSandbox, AnErrorSaysItsStatusAgain)
{
    EXPECT_EQ(error_body(404, "gone"), R"({"code":404,"message":"gone"})");
}

TEST(E2bSandbox, ForksAreCounted)
{
    EXPECT_EQ(read_fork("{}")->count, 1u);
    EXPECT_EQ(read_fork("")->timeout, 15s);
    EXPECT_FALSE(read_fork(R"({"count":0})"));
    EXPECT_FALSE(read_fork(R"({"count":101})"));
}

} // namespace
} // namespace berth::e2b

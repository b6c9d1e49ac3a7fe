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

TEST(E2bSandbox, PortsThatSpeakTls)
{
    const auto read = [](const std::string& ports) {
        return read_new_sandbox(R"({"templateID":"b","network":{"httpsPorts":)" + ports + "}}",
                                ApiVersion::V2);
    };
    const auto good = read("[8443, 1, 65535]");
    ASSERT_TRUE(good) << good.error().line();
    EXPECT_EQ(good->ingress.https_ports, (std::vector<std::uint16_t>{8443, 1, 65535}));
    std::string many = "[1";
    for (int i = 0; i < 200; ++i) many += ",1";
    for (const auto& bad : {std::string("[0]"), std::string("[65536]"), std::string("[-1]"),
                            std::string(R"(["8443"])"), std::string("8443"), many + "]"})
        EXPECT_FALSE(read(bad)) << bad;

    SandboxView view;
    view.ingress = good->ingress;
    EXPECT_EQ(json::dump(detail_json(view).at("network").as_object()),
              R"({"allowPublicTraffic":true,"httpsPorts":[8443,1,65535]})");
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

#include "protocol/jsonrpc/message.hpp"

#include <gtest/gtest.h>

namespace berth::jsonrpc {
namespace {

TEST(Message, IsARequestWithMethodAndId)
{
    const auto message = decode(R"({"jsonrpc":"2.0","id":7,"method":"a/b","params":{"x":1},"trace":{}})");
    ASSERT_TRUE(message);
    const auto& request = std::get<Request>(*message);
    EXPECT_EQ(request.id, Id(std::int64_t{7}));
    EXPECT_EQ(request.method, "a/b");
    EXPECT_EQ(request.params.at("x").to_number<int>(), 1);
}

TEST(Message, HasNullForAbsentParameters)
{
    const auto message = decode(R"({"id":"x","method":"m"})");
    ASSERT_TRUE(message);
    EXPECT_EQ(std::get<Request>(*message).id, Id(std::string("x")));
    EXPECT_TRUE(std::get<Request>(*message).params.is_null());
}

TEST(Message, IsClassifiedByItsMembers)
{
    EXPECT_TRUE(std::holds_alternative<Notification>(*decode(R"({"method":"initialized"})")));
    EXPECT_TRUE(std::holds_alternative<Response>(*decode(R"({"id":1,"result":null})")));
    EXPECT_TRUE(
        std::holds_alternative<ErrorResponse>(*decode(R"({"id":1,"error":{"code":-1,"message":"m"}})")));
}

TEST(Message, RefusesWhatIsNone)
{
    for (const char* text :
         {"", "{", "[]", "[{\"method\":\"a\"}]", "1", "null", "{}", R"({"id":1})",
          R"({"id":null,"method":"a"})", R"({"id":1.5,"method":"a"})", R"({"id":true,"method":"a"})",
          R"({"method":3})", R"({"id":1,"error":3})", R"({"id":1,"error":{"code":"x","message":"m"}})",
          R"({"id":18446744073709551615,"method":"a"})", R"({"method":"a"} {"method":"b"})",
          "{\"method\":\"\xff\"}"})
        EXPECT_FALSE(decode(text)) << text;
}

TEST(Message, RefusesAKeyThatStandsTwice)
{
    EXPECT_FALSE(decode(R"({"id":1,"id":2,"method":"a"})"));
    EXPECT_FALSE(decode(R"({"id":1,"method":"a","params":{"k":[{"z":1,"z":2}]}})"));
    EXPECT_FALSE(decode(R"({"id":1,"method":"a","params":{"a":1,"\u0061":2}})"));
}

TEST(Message, HoldsItsLimits)
{
    const auto nested = [](int depth) {
        return R"({"id":1,"method":"a","params":)" + std::string(depth, '[') + std::string(depth, ']') + "}";
    };
    EXPECT_TRUE(decode(nested(100)));
    EXPECT_FALSE(decode(nested(129)));
    const auto many = [](std::size_t values) { // the object, its id and method and the array are four more
        std::string text = R"({"id":1,"method":"a","params":[)";
        for (std::size_t i = 0; i + 4 < values; ++i) text += i == 0 ? "1" : ",1";
        return text + "]}";
    };
    EXPECT_EQ(count_values(many(50)), 50u);
    EXPECT_TRUE(decode(many(262'144)));
    EXPECT_FALSE(decode(many(262'145)));
    EXPECT_FALSE(decode(R"({"id":1,"method":"a"})", {.bytes = 10}));
}

TEST(Message, CountsValuesWithoutBuildingThem)
{
    EXPECT_EQ(count_values("1"), 1u);
    EXPECT_EQ(count_values("[]"), 1u);
    EXPECT_EQ(count_values("[ \n ]"), 1u);
    EXPECT_EQ(count_values(R"(["a,b[{","\"," , {}])"), 4u);
    EXPECT_EQ(count_values(R"({"a":{"b":[1,2]}})"), 5u);
}

TEST(Message, IsWrittenSoThatItReadsBack)
{
    const Request request{.id = std::string("q"), .method = "m", .params = json::Object{{"k", "v"}}};
    EXPECT_EQ(std::get<Request>(*decode(encode(request))).params, request.params);
    const Response response{.id = std::int64_t{3}, .result = json::Object{}};
    EXPECT_EQ(std::get<Response>(*decode(encode(response))).id, response.id);
    const ErrorResponse error{.id = std::int64_t{-1}, .code = kInvalidRequest, .message = "bad \xff byte"};
    const auto again = std::get<ErrorResponse>(*decode(encode(error)));
    EXPECT_EQ(again.code, kInvalidRequest);
    EXPECT_EQ(encode(Notification{.method = "n", .params = nullptr}), R"({"method":"n","params":null})");
}

} // namespace
} // namespace berth::jsonrpc

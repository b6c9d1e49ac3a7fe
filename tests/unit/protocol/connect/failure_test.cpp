#include "protocol/connect/failure.hpp"

#include <gtest/gtest.h>

namespace berth::connect {
namespace {

TEST(ConnectFailure, IsADocumentWithAWord)
{
    const Failure failure{.status = Status::NotFound, .message = "no such \"thing\""};
    EXPECT_EQ(json::dump(document(failure)), R"({"code":"not_found","message":"no such \"thing\""})");
    EXPECT_EQ(http_status(failure.status), 404);
    EXPECT_EQ(end_of_stream(failure), R"({"error":{"code":"not_found","message":"no such \"thing\""}})");
}

TEST(ConnectFailure, ComesBackFromTheEndOfAStream)
{
    const auto none = read_end("{}");
    ASSERT_TRUE(none);
    EXPECT_FALSE(*none);
    const auto some = read_end(end_of_stream({.status = Status::Aborted, .message = "m"}));
    ASSERT_TRUE(some && *some);
    EXPECT_EQ((*some)->status, Status::Aborted);
    EXPECT_FALSE(read_end("nonsense"));
}

TEST(ConnectFailure, AProxysAnswerIsReadByItsStatus)
{
    const auto gone = read_failure(502, R"({"code":502,"message":"The sandbox was not found"})");
    EXPECT_EQ(gone.status, Status::Unavailable);
    EXPECT_EQ(gone.message, "The sandbox was not found");
    EXPECT_EQ(read_failure(404, "<html>").status, Status::Unimplemented);
    EXPECT_EQ(read_failure(409, R"({"code":"already_exists","message":"x"})").status, Status::AlreadyExists);
}

TEST(ConnectFailure, EveryErrorOfOursHasAWord)
{
    EXPECT_EQ(failure_of({.code = Code::NotFound, .message = "m"}).status, Status::NotFound);
    EXPECT_EQ(failure_of({.code = Code::Invalid, .message = "m"}).status, Status::InvalidArgument);
    EXPECT_EQ(error_of({.status = Status::Unauthenticated}).code, Code::Denied);
    EXPECT_EQ(error_of({.status = Status::Unauthenticated}).message, "unauthenticated");
}

} // namespace
} // namespace berth::connect

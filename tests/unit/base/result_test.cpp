#include "base/result.hpp"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "base/json.hpp"

namespace berth {
namespace {

Result<int> half(int number)
{
    if (number % 2 != 0) return fail(Code::Invalid, "{} is odd", number);
    return number / 2;
}

Result<int> quarter(int number)
{
    BERTH_TRY(const int once, half(number));
    BERTH_TRY(const int twice, half(once));
    return twice;
}

Status both(int first, int second)
{
    BERTH_CHECK(half(first));
    BERTH_CHECK(half(second));
    return {};
}

TEST(Result, TryBindsTheValue) { EXPECT_EQ(quarter(8), 2); }

TEST(Result, TryPassesTheFirstErrorUp)
{
    const auto result = quarter(6);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::Invalid);
    EXPECT_EQ(result.error().message, "3 is odd");
}

TEST(Result, CheckStopsAtTheFirstFailure)
{
    EXPECT_TRUE(both(2, 4));
    EXPECT_EQ(both(3, 5).error().message, "3 is odd");
    EXPECT_EQ(both(2, 5).error().message, "5 is odd");
}

TEST(Error, NamesTheObjectAndTheSystemsReason)
{
    errno = ENOENT;
    const Status failed = fail_errno("opening {}", "/none");
    EXPECT_EQ(failed.error().code, Code::NotFound);
    EXPECT_EQ(failed.error().sys.value(), ENOENT);
    EXPECT_EQ(failed.error().message, "opening /none: No such file or directory");
}

TEST(Error, TakesANegativeErrnoAsWell)
{
    const Status negative = fail_with(-EEXIST, "x");
    const Status positive = fail_with(EEXIST, "x");
    EXPECT_EQ(negative.error().code, Code::Conflict);
    EXPECT_EQ(positive.error().code, Code::Conflict);
}

TEST(Error, TellsTheTrailInnermostFirst)
{
    const Status failed = fail(Code::Denied, "no");
    const Error error = Error(failed.error()).while_doing("mounting /proc").while_doing("starting sbx_1");
    ASSERT_EQ(error.trail.size(), 2u);
    EXPECT_EQ(error.trail.front(), "mounting /proc");
    const auto line = error.line();
    EXPECT_TRUE(line.starts_with("no")) << line;
    EXPECT_LT(line.find("mounting /proc"), line.find("starting sbx_1")) << line;
}

TEST(Code, HasAStableNameAndAnExitCode)
{
    const Code all[] = {Code::NotFound,    Code::Conflict,         Code::Invalid,
                        Code::Denied,      Code::Unsupported,      Code::Exhausted,
                        Code::Unavailable, Code::DeadlineExceeded, Code::Internal};
    std::set<std::string_view> names;
    for (const Code code : all) names.insert(to_string(code));
    EXPECT_EQ(names.size(), std::size(all));
    EXPECT_EQ(to_string(Code::NotFound), "not_found");
    EXPECT_EQ(exit_code(Code::Invalid), 2);
    EXPECT_EQ(exit_code(Code::NotFound), 3);
    EXPECT_EQ(exit_code(Code::Conflict), 4);
    EXPECT_EQ(exit_code(Code::Denied), 5);
    EXPECT_EQ(exit_code(Code::Unsupported), 6);
    EXPECT_EQ(exit_code(Code::Unavailable), 7);
    EXPECT_EQ(exit_code(Code::DeadlineExceeded), 7);
    EXPECT_EQ(exit_code(Code::Internal), 1);
}

TEST(Error, IsADocumentToo)
{
    const Status failed = fail(Code::NotFound, "no sandbox \"x\"");
    const auto document = json::error_document(Error(failed.error()).while_doing("looking"));
    EXPECT_EQ(json::dump(document),
              R"({"error":{"code":"not_found","message":"no sandbox \"x\"","trail":["looking"]}})");
}

} // namespace
} // namespace berth

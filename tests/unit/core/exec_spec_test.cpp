#include "core/exec_spec.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth {
namespace {

using ::testing::HasSubstr;

ExecSpec good()
{
    ExecSpec spec;
    spec.argv = {"/bin/true"};
    return spec;
}

void expect_refused(const ExecSpec& spec, const std::string& words)
{
    const auto checked = validate(spec);
    ASSERT_FALSE(checked) << words;
    EXPECT_EQ(checked.error().code, Code::Invalid);
    EXPECT_THAT(checked.error().message, HasSubstr(words));
}

TEST(ExecSpec, TakesAPlainCommand) { EXPECT_TRUE(validate(good())); }

TEST(ExecSpec, TakesEmptyArgumentsAfterTheCommand)
{
    ExecSpec spec = good();
    spec.argv = {"printf", "", "a b\n\"'"};
    EXPECT_TRUE(validate(spec));
}

TEST(ExecSpec, RefusesNoCommand)
{
    ExecSpec spec;
    expect_refused(spec, "no command given");
    spec.argv = {""};
    expect_refused(spec, "no command given");
}

TEST(ExecSpec, NamesTheArgumentWithANulByte)
{
    ExecSpec spec = good();
    spec.argv.emplace_back("a\0b", 3);
    expect_refused(spec, "argument 1 holds a NUL byte");
}

TEST(ExecSpec, RefusesArgumentsTheKernelCouldNotTake)
{
    ExecSpec spec = good();
    spec.argv.emplace_back(32 * 4096 - 1, 'x');
    EXPECT_TRUE(validate(spec));
    spec.argv.back() += 'x';
    expect_refused(spec, "argument 1 is 131072 bytes long");
}

TEST(ExecSpec, RefusesAnArgumentListOfTenMegabytes)
{
    ExecSpec spec = good();
    spec.argv.resize(1001, std::string(10'000, 'x'));
    expect_refused(spec, "the argument list is");
}

TEST(ExecSpec, RefusesARelativeWorkingDirectory)
{
    ExecSpec spec = good();
    spec.cwd = "build";
    expect_refused(spec, "working directory 'build' is not an absolute path");
}

TEST(ExecSpec, RefusesATimeoutOfNothing)
{
    ExecSpec spec = good();
    spec.timeout = std::chrono::nanoseconds(0);
    expect_refused(spec, "longer than zero");
}

TEST(ExecSpec, RefusesAnEnvironmentNoProcessCanHave)
{
    ExecSpec spec = good();
    spec.env = {{"A=B", "x"}};
    expect_refused(spec, "bad environment variable name 'A=B'");
    spec.env = {{"NAME", std::string("a\0b", 3)}};
    expect_refused(spec, "environment variable NAME holds a NUL byte");
}

} // namespace
} // namespace berth

#include <csignal>

#include <gtest/gtest.h>

#include "backend/e2b/command.hpp"
#include "backend/e2b/holdings.hpp"
#include "backend/e2b/labels.hpp"

namespace berth::e2b_client {
namespace {

using namespace std::string_literals;

TEST(Start, IsAsItWasAskedWhereAllIsText)
{
    ExecSpec spec;
    spec.id = "exec_1";
    spec.argv = {"echo", "grüße", ""};
    spec.env = {{"A", "b"}};
    const auto start = start_of(spec, "/work");
    EXPECT_EQ(start.process.cmd, "echo");
    EXPECT_EQ(start.process.args, (std::vector<std::string>{"grüße", ""}));
    EXPECT_EQ(start.process.cwd, "/work");
    EXPECT_EQ(start.tag, "exec_1");
    EXPECT_FALSE(start.stdin_open);
}

TEST(Start, GoesThroughAShellWhereItIsNot)
{
    ExecSpec spec;
    spec.argv = {"echo", "\xff"};
    spec.env = {{"PLAIN", "text"}, {"ODD", "\xfe"}};
    const auto start = start_of(spec, "");
    EXPECT_EQ(start.process.cmd, "/bin/sh");
    EXPECT_EQ(start.process.envs.count("PLAIN"), 1u);
    EXPECT_EQ(start.process.args.back(), "\\0377");
}

TEST(StartError, TellsMissingFromForbidden)
{
    ExecSpec spec;
    spec.argv = {"x"};
    const auto code = [&](const char* message) {
        return start_error({.status = connect::Status::InvalidArgument, .message = message}, spec).code;
    };
    EXPECT_EQ(code("fork/exec /x: no such file or directory"), Code::NotFound);
    EXPECT_EQ(code("exec: \"x\": executable file not found in $PATH"), Code::NotFound);
    EXPECT_EQ(code("cwd '/no' does not exist"), Code::NotFound);
    EXPECT_EQ(code("fork/exec /x: permission denied"), Code::Denied);
    EXPECT_EQ(code("too many words"), Code::Invalid);
}

TEST(Labels, ComeBack)
{
    Identity identity;
    identity.sandbox = "sbx_01m7hsc93cf719eztd8hj9etad";
    identity.labels.key = "conversation:a b&c=d";
    identity.labels.owner = "owner";
    identity.labels.generation = 3;
    identity.labels.created = WallTime(std::chrono::nanoseconds(1'700'000'000'000'000'001));
    identity.user = "root";
    const auto back = identity_of(metadata_of(identity));
    ASSERT_TRUE(back);
    EXPECT_EQ(back->labels, identity.labels);
    EXPECT_EQ(back->user, "root");
    EXPECT_FALSE(identity_of({{"berth.sandbox.id", "../x"}, {"berth.sandbox.generation", "1"}}));
    EXPECT_FALSE(identity_of({}));
}

TEST(Labels, AreAlsoThoseByWhichExoFindsIt)
{
    Identity identity;
    identity.sandbox = "sbx_01m7hsc93cf719eztd8hj9etad";
    identity.labels.key = "conversation:c:s";
    identity.labels.exo_hash = "8b720987830e622f";
    auto metadata = metadata_of(identity);
    EXPECT_EQ(metadata["exo.sandbox.key"], "conversation:c:s");
    EXPECT_EQ(metadata["exo.sandbox.spec-hash"], "8b720987830e622f");
    identity.labels.exo_hash.clear();
    EXPECT_FALSE(metadata_of(identity).contains("exo.sandbox.key")) << "one alone finds nothing";
}

TEST(Filter, NeedsNoEncoding)
{
    for (const auto& filter : {filter_all(), filter_instance("sbx_01m7hsc93cf719eztd8hj9etad", 12)})
        for (const auto& [name, value] : filter)
            for (const char c : name + value)
                EXPECT_TRUE(std::isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-')
                    << c;
}

TEST(Admission, TakesTheVendorsWordAndTheUsualLimits)
{
    SandboxSpec spec;
    spec.policy = *policy::preset("sandbox");
    EXPECT_TRUE(admit(spec));
    spec.policy.limits.pids = 32;
    EXPECT_EQ(admit(spec).error().code, Code::Unsupported);
    spec.policy = *policy::preset("workspace-write");
    EXPECT_EQ(admit(spec).error().code, Code::Unsupported);
}

} // namespace
} // namespace berth::e2b_client

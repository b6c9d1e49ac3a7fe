#include <csignal>

#include <gtest/gtest.h>

#include "backend/e2b/command.hpp"
#include "backend/e2b/files.hpp"
#include "backend/e2b/holdings.hpp"
#include "backend/e2b/labels.hpp"

namespace berth::e2b_client {
namespace {

using namespace std::string_literals;

/// What a shell makes of an escaped argument.
std::string through_shell(const std::string& bytes)
{
    const std::string command = "sh -c 'printf %b. \"$1\"' x '" + escape(bytes) + "'";
    std::string out;
    FILE* pipe = ::popen(command.c_str(), "r");
    char piece[4096];
    for (std::size_t n; (n = ::fread(&piece[0], 1, sizeof piece, pipe)) > 0;) out.append(&piece[0], n);
    ::pclose(pipe);
    EXPECT_TRUE(out.ends_with('.'));
    return out.substr(0, out.size() - 1);
}

TEST(Escape, BringsEveryByteThroughAShell)
{
    std::string all;
    for (int i = 1; i < 256; ++i)
        if (i != '\'') all += static_cast<char>(i); // the quotes of this test's own command
    EXPECT_EQ(through_shell(all), all);
    EXPECT_EQ(through_shell("a\\0101%s\\n\n"), "a\\0101%s\\n\n");
    EXPECT_EQ(through_shell(""), "");
}

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

TEST(Words, AreWhatTheKernelSaid)
{
    EXPECT_EQ(error_of_words("cat: /x: No such file or directory\n", "/x").code, Code::NotFound);
    EXPECT_EQ(error_of_words("sh: 3: cannot create /x: Permission denied", "/x").code, Code::Denied);
    EXPECT_EQ(error_of_words("mkdir: cannot create directory 'x': File exists", "x").code, Code::Conflict);
    EXPECT_EQ(error_of_words("something new", "x").code, Code::Internal);
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

TEST(Entries, AreReadToTheByte)
{
    std::string text;
    for (const char* field : {"a\nb", "l", "3", "4755", "1700000000.5000000000", "../x", "0", "65534"})
        text += field + "\0"s;
    const auto one = parse_entries(text);
    ASSERT_TRUE(one) << one.error().line();
    ASSERT_EQ(one->size(), 1u);
    EXPECT_EQ(one->front().name, "a\nb");
    EXPECT_EQ(one->front().kind, FileEntry::Kind::Symlink);
    EXPECT_EQ(one->front().mode, 04755u);
    EXPECT_EQ(one->front().target, "../x");
    EXPECT_EQ(one->front().modified.time_since_epoch().count(), 1'700'000'000'500'000'000);
    EXPECT_FALSE(parse_entries(text + "more"));
    EXPECT_FALSE(parse_entries("x\0f\0-3\0"s));
    EXPECT_TRUE(parse_entries("")->empty());
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

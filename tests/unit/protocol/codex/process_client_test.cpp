#include "protocol/codex/process_client.hpp"

#include <gtest/gtest.h>

namespace berth::codex {
namespace {

json::Value value(std::string_view text) { return *json::parse(text); }

TEST(ProcessClient, ReadsBackWhatItWrites)
{
    StartParams start;
    start.process_id = "p";
    start.argv = {"/bin/sh", "-c", "x"};
    start.cwd = "/a b";
    start.env = {{"A", "1"}};
    start.pipe_stdin = true;
    start.sandbox = Intent{.cwd = "/w", .workspace_roots = {"/w"}, .roots_given = true};
    const auto back = read_start(write_start(start));
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(back->argv, start.argv);
    EXPECT_EQ(back->cwd, "/a b");
    EXPECT_EQ(back->env, start.env);
    EXPECT_TRUE(back->pipe_stdin);
    EXPECT_EQ(back->sandbox, start.sandbox);
    start.sandbox.reset();
    EXPECT_TRUE(write_start(start).at("sandbox").is_null());
    const auto write = read_write(write_write({.process_id = "p", .bytes = "\xff", .write_id = "1"}));
    ASSERT_TRUE(write);
    EXPECT_EQ(write->bytes, "\xff");
}

TEST(ProcessClient, ReadsEventsAndNothingElse)
{
    const auto output = read_process_event(
        "process/output", value(R"({"processId":"p","seq":3,"stream":"stderr","chunk":"aGk="})"));
    ASSERT_TRUE(output && *output);
    EXPECT_EQ((*output)->event.bytes, "hi");
    EXPECT_EQ((*output)->event.stream, Stream::Stderr);
    const auto exited = read_process_event(
        "process/exited", value(R"({"processId":"p","seq":4,"exitCode":137,"sandboxDenied":true})"));
    ASSERT_TRUE(exited && *exited);
    EXPECT_EQ((*exited)->event.exit_code, 137);
    EXPECT_TRUE((*exited)->event.denied);
    const auto other = read_process_event("fs/missingChanged", value("{}"));
    ASSERT_TRUE(other);
    EXPECT_FALSE(*other);
    for (const char* bad :
         {R"({"processId":"p","seq":-1,"stream":"stdout","chunk":""})",
          R"({"processId":"p","seq":1,"stream":"loud","chunk":""})",
          R"({"processId":"p","seq":1,"stream":"stdout","chunk":"!"})", R"({"seq":1})", "[]"})
        EXPECT_FALSE(read_process_event("process/output", value(bad))) << bad;
}

TEST(ProcessClient, NoticesAMissingNumber)
{
    const auto answer = [](std::string_view chunks, std::string_view rest) {
        return *read_read_answer(value(fmt::format(R"({{"chunks":[{}],{}}})", chunks, rest)));
    };
    const std::string two =
        R"({"seq":2,"stream":"stdout","chunk":""},{"seq":3,"stream":"stdout","chunk":""})";
    EXPECT_TRUE(complete(answer(two, R"("nextSeq":4)"), 1));
    EXPECT_FALSE(complete(answer(two, R"("nextSeq":4)"), 0));
    EXPECT_TRUE(complete(answer(two, R"("nextSeq":6,"exited":true,"exitCode":0,"closed":true)"), 1));
    EXPECT_FALSE(complete(answer(two, R"("nextSeq":7,"exited":true,"exitCode":0,"closed":true)"), 1));
    EXPECT_TRUE(complete(answer("", R"("nextSeq":4)"), 3));
    EXPECT_FALSE(read_read_answer(value(
        R"({"chunks":[{"seq":2,"stream":"stdout","chunk":""},{"seq":2,"stream":"stdout","chunk":""}],"nextSeq":3})")));
}

} // namespace
} // namespace berth::codex

#include "protocol/e2b/template_client.hpp"

#include <gtest/gtest.h>

namespace berth::e2b {
namespace {

TEST(E2bTemplateClient, WhatIsSentIsWhatAServerReads)
{
    BuildStart start;
    start.from_image = "x:1";
    start.username = "me";
    start.password = "secret";
    start.start_cmd = "serve";
    start.steps = {
        {.type = BuildStep::Type::Copy, .args = {"a", "b", "", ""}, .files_hash = std::string(64, 'a')},
        {.type = BuildStep::Type::Run, .args = {"make"}, .files_hash = {}}};
    const auto read = read_build_start(build_start_body(start, true));
    ASSERT_TRUE(read) << read.error().line();
    EXPECT_EQ(read->from_image, "x:1");
    EXPECT_EQ(read->password, "secret");
    EXPECT_EQ(read->start_cmd, "serve");
    ASSERT_EQ(read->steps.size(), 2u);
    EXPECT_EQ(read->steps[0].files_hash, start.steps[0].files_hash);
    EXPECT_EQ(read->steps[1].args, start.steps[1].args);
    const auto wish =
        read_new_template(new_template_body({.name = "n:t", .tags = {"a"}, .cpus = 2, .memory_mb = 512}));
    ASSERT_TRUE(wish) << wish.error().line();
    EXPECT_EQ(wish->name, "n:t");
    EXPECT_EQ(wish->memory_mb, 512u);
}

TEST(E2bTemplateClient, AnIdThatLeadsElsewhereIsNone)
{
    EXPECT_TRUE(read_registered(R"({"templateID":"abc","buildID":"0-1"})"));
    for (const auto* const id : {"", "a/b", "..", "a b", "a?b", "a\\nb"})
        EXPECT_FALSE(read_registered(std::string(R"({"buildID":"1","templateID":")") + id + "\"}")) << id;
}

TEST(E2bTemplateClient, AHeaderOfALinkIsOneLine)
{
    EXPECT_TRUE(read_files_link(R"({"present":false,"url":"http://x/y","headers":{"A":"b"}})"));
    EXPECT_TRUE(read_files_link(R"({"present":true})"));
    EXPECT_FALSE(read_files_link(R"({"present":false})"));
    EXPECT_FALSE(read_files_link(R"({"present":false,"url":"http://x/y","headers":{"A":"b\r\nC: d"}})"));
    EXPECT_FALSE(read_files_link(R"({"present":false,"url":"http://x/y","headers":{"A: b":"c"}})"));
}

TEST(E2bTemplateClient, ABuildThatFailedSaysWhere)
{
    const auto read = read_build_status(
        R"({"status":"error","logs":[],"logEntries":[{"timestamp":"2026-01-01T00:00:00Z","level":"info","message":"m"}],
            "reason":{"message":"no","step":"2"}})");
    ASSERT_TRUE(read) << read.error().line();
    EXPECT_EQ(read->lines.size(), 1u);
    EXPECT_EQ(read->failed_step, "2");
    EXPECT_TRUE(read_build_status(R"({"status":"building","logEntries":null,"reason":null})"));
}

} // namespace
} // namespace berth::e2b

#include "protocol/e2b/sandbox_client.hpp"

#include <gtest/gtest.h>

#include "protocol/e2b/filesystem.hpp"

namespace berth::e2b {
namespace {

using namespace std::chrono_literals;

TEST(E2bClient, WhatItAsksForIsWhatAServerReads)
{
    NewSandbox wish;
    wish.template_id = "base";
    wish.timeout = 62s;
    wish.auto_pause = true;
    wish.allow_internet = false;
    wish.metadata = {{"a", "b c"}, {"k&1", "v=é"}};
    wish.env = {{"A", "1"}};
    for (const auto version : {ApiVersion::V1, ApiVersion::V2}) {
        const auto read = read_new_sandbox(new_sandbox_body(wish, version), version);
        ASSERT_TRUE(read) << read.error().line();
        EXPECT_EQ(read->timeout, wish.timeout);
        EXPECT_EQ(read->metadata, wish.metadata);
        EXPECT_EQ(read->env, wish.env);
        EXPECT_EQ(read->allow_internet, wish.allow_internet);
        EXPECT_TRUE(read->auto_pause && read->secure);
    }
    EXPECT_EQ(read_time(time_body(9s), "timeout")->time, 9s);
    EXPECT_EQ(read_time(memory_body(false), "timeout")->memory, false);
}

TEST(E2bClient, ReadsWhatAServerTells)
{
    SandboxView view;
    view.id = "i0123456789";
    view.template_id = "base";
    view.token = "token";
    view.domain = "sbx.localhost:8443";
    view.paused = true;
    view.started = WallTime(1'700'000'000s);
    view.metadata = {{"a", "b"}};
    const auto made = read_sandbox(json::dump(sandbox_json(view)));
    ASSERT_TRUE(made) << made.error().line();
    EXPECT_EQ(made->token, "token");
    EXPECT_EQ(made->domain, view.domain);
    EXPECT_EQ(made->traffic_token, "");
    const auto detail = read_sandbox(json::dump(detail_json(view)));
    ASSERT_TRUE(detail);
    EXPECT_TRUE(detail->paused);
    EXPECT_EQ(detail->started, view.started);
    EXPECT_EQ(detail->metadata, view.metadata);
    EXPECT_EQ(read_sandboxes("[" + json::dump(listed_json(view)) + "]")->size(), 1u);
    EXPECT_EQ(read_message(error_body(404, "gone")), "gone");
    EXPECT_EQ(read_message("<html>"), "");
}

TEST(E2bClient, TakesNoIdAndNoTokenThatCouldBeSomethingElse)
{
    for (const char* id : {"", "A", "../x", "a-b", "a.b", "a b"}) EXPECT_FALSE(is_cloud_id(id)) << id;
    EXPECT_FALSE(is_cloud_id(std::string(64, 'a')));
    EXPECT_FALSE(read_sandbox(R"({"sandboxID":"../x","templateID":"t"})"));
    EXPECT_FALSE(read_sandbox(R"({"sandboxID":"i1","envdAccessToken":"a\r\nX: y"})"));
    EXPECT_FALSE(read_sandbox("[]"));
    EXPECT_FALSE(read_sandboxes("{}"));
    EXPECT_FALSE(read_snapshot("{}"));
}

TEST(E2bClient, ReadsTheChangesItWatches)
{
    EXPECT_TRUE(read_watch_message(watch_start())->started);
    EXPECT_FALSE(read_watch_message(watch_keepalive())->event);
    for (const auto type :
         {WatchEvent::Create, WatchEvent::Write, WatchEvent::Remove, WatchEvent::Rename, WatchEvent::Chmod}) {
        const auto told = read_watch_message(watch_event({.name = "sub/ü", .type = type, .entry = {}}));
        ASSERT_TRUE(told && told->event);
        EXPECT_EQ(told->event->name, "sub/ü");
        EXPECT_EQ(told->event->type, type);
    }
    EXPECT_FALSE(read_watch_message(R"({"filesystem":{"name":"x","type":"EVENT_TYPE_NEW"}})")->event);
    EXPECT_EQ(read_watch_message(R"({"filesystem":{"name":"x","type":3}})")->event->type, WatchEvent::Remove);
    const auto asked = read_filesystem_call(watch_request("/home/user", true));
    ASSERT_TRUE(asked);
    EXPECT_TRUE(asked->recursive);
    EXPECT_EQ(asked->path, "/home/user");
}

} // namespace
} // namespace berth::e2b

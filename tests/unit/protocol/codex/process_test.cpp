#include "protocol/codex/process.hpp"

#include <gtest/gtest.h>

#include "protocol/codex/files.hpp"

namespace berth::codex {
namespace {

json::Value value(std::string_view text) { return *json::parse(text); }

const std::map<std::string, std::string> kOwn{{"PATH", "/bin"},
                                              {"HOME", "/root"},
                                              {"LANG", "C"},
                                              {"API_KEY", "secret"},
                                              {"my_token", "t"},
                                              {"EDITOR", "vi"},
                                              {"NODE_REPL_AUTH_TOKEN", "x"}};

std::map<std::string, std::string> environment(std::string_view policy)
{
    auto start = read_start(value(
        R"({"processId":"p","argv":["x"],"cwd":"file:///","env":{"SENT":"1"},"tty":false,"envPolicy":)" +
        std::string(policy) + "}"));
    EXPECT_TRUE(start) << start.error().message;
    return make_environment(kOwn, *start);
}

TEST(Environment, IsWhatWasSentWhereThereIsNoPolicy)
{
    EXPECT_EQ(environment("null"), (std::map<std::string, std::string>{{"SENT", "1"}}));
}

TEST(Environment, FollowsThePolicyInItsOrder)
{
    const auto all = environment(
        R"({"inherit":"all","ignoreDefaultExcludes":true,"exclude":[],"set":{},"includeOnly":[]})");
    EXPECT_EQ(all.at("API_KEY"), "secret");
    EXPECT_FALSE(all.contains("NODE_REPL_AUTH_TOKEN"));
    const auto safe = environment(
        R"({"inherit":"all","ignoreDefaultExcludes":false,"exclude":["ed*"],"set":{"MY_KEY":"set"},"includeOnly":[]})");
    EXPECT_FALSE(safe.contains("API_KEY") || safe.contains("my_token") || safe.contains("EDITOR"));
    EXPECT_EQ(safe.at("MY_KEY"), "set");
    const auto core = environment(
        R"({"inherit":"core","ignoreDefaultExcludes":true,"exclude":[],"set":{},"includeOnly":["p?th"]})");
    EXPECT_EQ(core, (std::map<std::string, std::string>{{"PATH", "/bin"}, {"SENT", "1"}}));
    const auto none = environment(
        R"({"inherit":"none","ignoreDefaultExcludes":true,"exclude":[],"set":{"A":"b"},"includeOnly":[]})");
    EXPECT_EQ(none, (std::map<std::string, std::string>{{"A", "b"}, {"SENT", "1"}}));
}

TEST(Wildcard, MatchesInWhateverCase)
{
    EXPECT_TRUE(wildcard_match("*KEY*", "my_key_2"));
    EXPECT_TRUE(wildcard_match("a?c*", "ABC"));
    EXPECT_TRUE(wildcard_match("*", ""));
    EXPECT_FALSE(wildcard_match("", "a"));
    EXPECT_FALSE(wildcard_match("*a*b", "ba"));
}

TEST(ProcessParameters, AreStrict)
{
    EXPECT_FALSE(read_start(value(R"({"processId":"p","argv":[],"cwd":"file:///","env":{},"tty":false})")));
    EXPECT_FALSE(read_start(
        value(R"({"processId":"p","argv":["a"],"cwd":"file:///","env":{},"tty":false,"sandbox":{}})")));
    EXPECT_FALSE(read_start(value("null")));
    EXPECT_EQ(read_read(value(R"({"processId":"p","afterSeq":18446744073709551615})"))->after, ~0ull);
    EXPECT_FALSE(read_read(value(R"({"processId":"p","waitMs":-1})")));
    EXPECT_EQ(read_write(value(R"({"processId":"p","chunk":"aGk=","writeId":"1"})"))->bytes, "hi");
    EXPECT_FALSE(read_write(value(R"({"processId":"p","chunk":"aGk=","writeId":""})")));
    EXPECT_FALSE(read_write(value(R"({"processId":"p","chunk":"a*","writeId":"1"})")));
    EXPECT_EQ(read_signal(value(R"({"processId":"p","signal":"interrupt"})")), "p");
    EXPECT_FALSE(read_signal(value(R"({"processId":"p","signal":"kill"})")));
}

TEST(FileParameters, HaveCodesOfTheirOwn)
{
    EXPECT_EQ(read_write_file(value(R"({"path":"file:///x","dataBase64":"%"})")).error().code,
              Code::Conflict);
    EXPECT_EQ(read_open(value(R"({"path":"file:///x","handleId":""})")).error().code, Code::Conflict);
    EXPECT_EQ(read_path_params(value(R"({"path":"file://h/x"})")).error().code, Code::Unsupported);
    EXPECT_EQ(read_path_params(value(R"({"path":"x"})")).error().code, Code::Invalid);
    EXPECT_EQ(read_read_block(value(R"({"handleId":"h","offset":0,"len":1048577})")).error().code,
              Code::Conflict);
    EXPECT_TRUE(read_path_params(value(R"({"path":"file:///x"})"))->recursive);
    EXPECT_FALSE(read_copy(value(R"({"sourcePath":"file:///x","destinationPath":"file:///y"})")));
    EXPECT_FALSE(read_open(value(R"({"path":"file:///x","handleId":"h","mode":"append"})")));
}

} // namespace
} // namespace berth::codex

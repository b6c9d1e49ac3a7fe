#include "base/json.hpp"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::json {
namespace {

using ::testing::HasSubstr;

std::string refusal(std::string_view text, Limits limits = {})
{
    const auto value = parse(text, limits);
    if (value) return "accepted as " + dump(*value);
    EXPECT_EQ(value.error().code, Code::Invalid);
    return value.error().message;
}

TEST(JsonParse, TakesOneDocument)
{
    EXPECT_EQ(dump(*parse(R"( {"a":[1,-2,3.5,true,null,"x"]} )")), R"({"a":[1,-2,3.5E0,true,null,"x"]})");
    EXPECT_EQ(dump(*parse("\"\\u00e9\\n\"")), "\"\xc3\xa9\\n\"");
}

TEST(JsonParse, RefusesAKeyTwiceInOneObject)
{
    EXPECT_EQ(refusal(R"({"a":1,"b":2,"a":3})"), "key \"a\" stands twice in one object");
    EXPECT_THAT(refusal(R"({"x":{"k":1,"k":1}})"), HasSubstr("\"k\""));
    EXPECT_THAT(refusal(R"({"a":1,"\u0061":2})"), HasSubstr("\"a\"")) << "one key in two spellings";
    EXPECT_TRUE(parse(R"({"a":{"a":1},"b":{"a":2}})")) << "the same key in different objects";
}

TEST(JsonParse, RefusesTheEmptyKeyTwiceToo) { EXPECT_FALSE(parse(R"({"":1,"":2})")); }

TEST(JsonParse, RefusesWhatFollowsTheDocument)
{
    EXPECT_FALSE(parse("{} {}"));
    EXPECT_FALSE(parse("1 2"));
    EXPECT_FALSE(parse("{}x"));
    EXPECT_FALSE(parse(std::string_view("{}\0", 3)));
    EXPECT_TRUE(parse("{} \r\n\t"));
}

TEST(JsonParse, RefusesWhatIsAlmostJson)
{
    for (const char* text :
         {"",   " ",   "{",        "[1,]",    "{\"a\":1,}", "{a:1}",  "'a'",     "01",  "+1",  ".5",
          "1.", "NaN", "Infinity", "// c\n1", "/* c */1",   "\"\t\"", "\"\\x\"", "tru", "nul", "[1 2]"})
        EXPECT_FALSE(parse(text)) << text;
}

TEST(JsonParse, RefusesBytesThatAreNotUtf8)
{
    for (const char* text : {"\"\xff\"", "\"\xc0\xaf\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"",
                             "\"\xe2\x82\"", "{\"\x80\":1}"})
        EXPECT_FALSE(parse(text));
    EXPECT_TRUE(parse("\"\xf0\x9f\x9a\xa2\""));
}

TEST(JsonParse, RefusesALoneSurrogate)
{
    EXPECT_FALSE(parse(R"("\ud800")"));
    EXPECT_FALSE(parse(R"("\udc00")"));
    EXPECT_TRUE(parse(R"("\ud83d\udea2")"));
}

TEST(JsonParse, BoundsDepth)
{
    const auto nested = [](std::size_t n) { return std::string(n, '[') + std::string(n, ']'); };
    EXPECT_TRUE(parse(nested(64)));
    EXPECT_FALSE(parse(nested(65)));
    EXPECT_FALSE(parse(nested(1'000'000)));
    EXPECT_FALSE(parse(nested(4), {.depth = 3}));
}

TEST(JsonParse, BoundsSize)
{
    EXPECT_TRUE(parse("[1234]", {.bytes = 6}));
    EXPECT_THAT(refusal("[12345]", {.bytes = 6}), HasSubstr("7 bytes is over the limit of 6"));
}

TEST(JsonParse, NamesTheLine) { EXPECT_THAT(refusal("{\n\"a\": 1,\n\"b\": x}"), HasSubstr("line 3")); }

TEST(JsonParse, TakesLongKeysAndStringsWhole)
{
    const std::string text(100'000, 'k');
    const auto value = parse("{\"" + text + "\":\"" + text + "\"}");
    ASSERT_TRUE(value) << value.error().line();
    EXPECT_EQ(value->as_object().begin()->key(), text);
    EXPECT_EQ(value->as_object().begin()->value().as_string(), text);
}

TEST(JsonDump, AlwaysGivesWhatParses)
{
    Object object;
    object["bytes"] = std::string("a\xff\x01\"\\\n") + "b";
    const auto line = dump(object);
    EXPECT_EQ(line.find('\n'), std::string::npos);
    EXPECT_TRUE(parse(line)) << line;
    EXPECT_TRUE(parse(dump_pretty(Value(object))));
}

TEST(JsonDump, EscapesInvalidKeysAsWell)
{
    Object object;
    object["k\xff"] = 1;
    EXPECT_TRUE(parse(dump(object))) << dump(object);
    EXPECT_TRUE(parse(dump_pretty(Value(object))));
}

TEST(JsonDump, TellsWhatItWouldChange)
{
    const auto good = parse(R"({"a":["\u00fc",{"":"x"}]})");
    ASSERT_TRUE(good);
    EXPECT_EQ(not_utf8(*good), std::nullopt);
    EXPECT_EQ(not_utf8(Value("\xff")), "");
    EXPECT_EQ(not_utf8(Object{{"a", Array{1, Object{{"b", "x\xc3"}}}}}), "/a/1/b");
    EXPECT_EQ(not_utf8(Object{{"\xff", 1}}), "/\xff");
}

TEST(JsonDump, IsIndentedForPeople)
{
    EXPECT_EQ(dump_pretty(*parse(R"({"a":[1,{}],"b":[]})")),
              "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": []\n}");
}

} // namespace
} // namespace berth::json

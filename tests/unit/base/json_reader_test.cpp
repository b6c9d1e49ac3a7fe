#include "base/json_reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::json {
namespace {

using ::testing::ElementsAre;

Value document(std::string_view text) { return *parse(text); }

template <class T> std::string message(const Result<T>& result)
{
    return result ? "accepted" : result.error().message;
}

TEST(JsonReader, SaysWhereAndWhatWasExpected)
{
    const auto value = document(R"({"limits":{"memory":5}})");
    const auto memory = Reader(value).at("limits")->at("memory");
    ASSERT_TRUE(memory);
    EXPECT_EQ(message(memory->string()), "/limits/memory: expected a string, found a number");
    EXPECT_EQ(message(memory->boolean()), "/limits/memory: expected true or false, found a number");
    EXPECT_EQ(message(memory->array()), "/limits/memory: expected an array, found a number");
    EXPECT_EQ(message(memory->members()), "/limits/memory: expected an object, found a number");
    EXPECT_EQ(message(memory->find("x")), "/limits/memory: expected an object, found a number");
}

TEST(JsonReader, CountsItemsInThePath)
{
    const auto value = document(R"({"env":["a",7]})");
    EXPECT_EQ(message(Reader(value).at("env")->strings()), "/env/1: expected a string, found a number");
}

TEST(JsonReader, CallsTheWholeDocumentASlash)
{
    const auto value = document("[]");
    EXPECT_EQ(message(Reader(value).string()), "/: expected a string, found an array");
}

TEST(JsonReader, EscapesNamesInThePath)
{
    const auto value = document(R"({"a/b~c":1})");
    EXPECT_EQ(message(Reader(value).at("a/b~c")->string()), "/a~1b~0c: expected a string, found a number");
}

TEST(JsonReader, ShowsNoControlCharactersOfAHostileName)
{
    const auto value = document(R"({"a\u001b[2J":1})");
    const auto text = message(Reader(value).only({"b"}));
    EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
}

TEST(JsonReader, KeepsWholeNumbersInTheirRange)
{
    const auto value = document("[5,-1,1.5,18446744073709551615,\"5\"]");
    const auto items = *Reader(value).array();
    EXPECT_EQ(*items[0].integer(0, 10), 5);
    EXPECT_EQ(message(items[0].integer(6, 10)), "/0: out of range: a whole number from 6 to 10");
    EXPECT_EQ(message(items[1].integer(0, 10)), "/1: out of range: a whole number from 0 to 10");
    EXPECT_EQ(message(items[2].integer(0, 10)), "/2: expected a whole number, found a number");
    EXPECT_EQ(message(items[3].integer(0, 10)), "/3: out of range: a whole number from 0 to 10");
    EXPECT_EQ(message(items[4].integer(0, 10)), "/4: expected a whole number, found a string");
}

TEST(JsonReader, TakesAnyNumberAsANumber)
{
    const auto value = document("[2,1.5]");
    const auto items = *Reader(value).array();
    EXPECT_EQ(*items[0].number(), 2.0);
    EXPECT_EQ(*items[1].number(), 1.5);
}

TEST(JsonReader, AbsentAndNullAreTheSame)
{
    const auto value = document(R"({"a":null})");
    EXPECT_FALSE(Reader(value).find("a")->has_value());
    EXPECT_FALSE(Reader(value).find("b")->has_value());
    EXPECT_EQ(message(Reader(value).at("b")), "/: missing \"b\"");
}

TEST(JsonReader, RefusesUnknownFieldsSuggestingTheNearest)
{
    const auto value = document(R"({"memroy":1})");
    EXPECT_EQ(message(Reader(value).only({"memory", "cpus"})),
              "/memroy: unknown field, did you mean \"memory\"?");
    EXPECT_EQ(message(Reader(value).only({"zzz"})), "/memroy: unknown field");
    EXPECT_TRUE(Reader(value).only({"memroy"}));
}

TEST(JsonReader, KeepsTheOrderOfMembers)
{
    const auto value = document(R"({"z":1,"a":2})");
    std::vector<std::string> names;
    for (const auto& [name, reader] : *Reader(value).members()) names.push_back(name + reader.path());
    EXPECT_THAT(names, ElementsAre("z/z", "a/a"));
}

} // namespace
} // namespace berth::json

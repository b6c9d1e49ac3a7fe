#include "base/log.hpp"

#include <gtest/gtest.h>

#include "base/json.hpp"

namespace berth::log {
namespace {

constexpr std::string_view kTime = "2024-01-02T03:04:05.006Z";

TEST(Log, IsOneLineOfText)
{
    EXPECT_EQ(render(Format::Text, Level::Warn, "sandbox gone", {{"sandbox", "sbx_1"}, {"n", "2"}}, kTime),
              "2024-01-02T03:04:05.006Z warn  sandbox gone sandbox=sbx_1 n=2\n");
}

TEST(Log, CannotBeForgedByAValueInText)
{
    const auto line =
        render(Format::Text, Level::Info, "a\nb", {{"f", "x\n2024 error forged\x1b[2J"}}, kTime);
    EXPECT_EQ(line.find('\n'), line.size() - 1) << line;
    EXPECT_EQ(line.find('\x1b'), std::string::npos) << line;
}

TEST(Log, IsOneDocumentAsJson)
{
    const auto line = render(Format::Json, Level::Error, "a \"b\"\n", {{"path", "x\xff\x01"}}, kTime);
    EXPECT_EQ(line.find('\n'), line.size() - 1) << line;
    const auto value = json::parse(line);
    ASSERT_TRUE(value) << value.error().line();
    const auto& object = value->as_object();
    EXPECT_EQ(object.at("time").as_string(), kTime);
    EXPECT_EQ(object.at("level").as_string(), "error");
    EXPECT_EQ(object.at("message").as_string(), "a \"b\"\n");
}

TEST(Log, BoundsAValue)
{
    const auto line = render(Format::Text, Level::Info, "m", {{"f", std::string(1'000'000, 'x')}}, kTime);
    EXPECT_LT(line.size(), 3000u);
}

TEST(Log, ReadsLevelsAndFormats)
{
    EXPECT_EQ(*parse_level("debug"), Level::Debug);
    EXPECT_EQ(*parse_level("off"), Level::Off);
    EXPECT_EQ(*parse_format("json"), Format::Json);
    EXPECT_EQ(parse_level("loud").error().code, Code::Invalid);
    EXPECT_EQ(parse_format("xml").error().code, Code::Invalid);
}

TEST(Log, LetsThroughWhatIsAsLoudAsConfigured)
{
    configure(Level::Error, Format::Text);
    EXPECT_FALSE(enabled(Level::Warn));
    EXPECT_TRUE(enabled(Level::Error));
    configure(Level::Off, Format::Text);
    EXPECT_FALSE(enabled(Level::Error));
    configure(Level::Warn, Format::Text);
    EXPECT_TRUE(enabled(Level::Warn));
    EXPECT_FALSE(enabled(Level::Info));
}

} // namespace
} // namespace berth::log

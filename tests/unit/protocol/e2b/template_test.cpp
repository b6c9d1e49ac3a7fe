#include "protocol/e2b/template.hpp"

#include <gtest/gtest.h>

namespace berth::e2b {
namespace {

TEST(E2bTemplate, ReadsABuildAsTheSdkSendsIt)
{
    const std::string hash(64, 'a');
    const auto read =
        read_build_start(R"({"startCmd":"serve","readyCmd":"ready","force":false,"fromImage":"x:1",
        "fromImageRegistry":{"type":"registry","username":"me","password":"secret"},
        "steps":[{"type":"COPY","args":["a","b","",""],"force":false,"filesHash":")" +
                         hash + R"("},{"type":"RUN","args":["make","root"]},
        {"type":"ENV","args":["A","1","B","2"]},{"type":"WORKDIR","args":["/w"]},{"type":"USER","args":["u"]}]})");
    ASSERT_TRUE(read) << read.error().line();
    EXPECT_EQ(read->from_image, "x:1");
    EXPECT_EQ(read->username, "me");
    EXPECT_EQ(read->password, "secret");
    EXPECT_EQ(read->start_cmd, "serve");
    ASSERT_EQ(read->steps.size(), 5u);
    EXPECT_EQ(read->steps[0].files_hash, hash);
    EXPECT_EQ(read->steps[1].args, (std::vector<std::string>{"make", "root"}));
}

TEST(E2bTemplate, TheLogDoesNotTellAValue)
{
    const BuildStep step{.type = BuildStep::Type::Env, .args = {"TOKEN", "very secret"}};
    EXPECT_EQ(to_string(step), "ENV TOKEN");
}

TEST(E2bTemplate, RefusesWhatNoStepIs)
{
    for (const char* text :
         {R"({"steps":[{"type":"X","args":["a"]}]})", R"({"steps":[{"type":"RUN","args":[]}]})",
          R"({"steps":[{"type":"RUN","args":["a","b","c"]}]})", R"({"steps":[{"type":"ENV","args":["a"]}]})",
          R"({"steps":[{"type":"COPY","args":["a","b"]}]})",
          R"({"steps":[{"type":"RUN","args":["a\u0000"]}]})", R"({"steps":{}})",
          R"({"fromImage":"a","fromTemplate":"b"})", R"([])", R"({"fromImageRegistry":{"type":"gcp"}})"})
        EXPECT_FALSE(read_build_start(text)) << text;
    EXPECT_FALSE(read_new_template("{}"));
    EXPECT_FALSE(read_tags(R"({"target":"x","tags":[]})", "target"));
    EXPECT_FALSE(is_files_hash("../" + std::string(61, 'a')));
    EXPECT_FALSE(is_files_hash(std::string(64, 'A')));
}

TEST(E2bTemplate, ALineOfALogIsReadBack)
{
    const BuildLine line{.time = WallTime(std::chrono::milliseconds(1'700'000'000'250)),
                         .level = "warn",
                         .message = "é \"x\"",
                         .step = "2"};
    const auto read = read_line(json::Value(line_json(line)));
    ASSERT_TRUE(read) << read.error().line();
    EXPECT_EQ(read->time, line.time);
    EXPECT_EQ(read->level, line.level);
    EXPECT_EQ(read->message, line.message);
    EXPECT_EQ(read->step, line.step);
}

} // namespace
} // namespace berth::e2b

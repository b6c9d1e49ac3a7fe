// The program as CI runs it: the answer is one JSON document, and the exit code says what it says.

#include <sys/wait.h>

#include <cstdio>
#include <memory>

#include <gtest/gtest.h>

#include "../sys/temp_dir.hpp"
#include "base/json.hpp"
#include "support/places.hpp"

namespace berth::bench {
namespace {

struct Answer {
    std::string out;
    int code = -1;
};

Answer run(const std::string& words)
{
    Answer answer;
    FILE* pipe = ::popen((BERTH_PROGRAM " bench " + words).c_str(), "re");
    if (pipe == nullptr) return answer;
    char buffer[4096];
    for (std::size_t n = 0; (n = std::fread(&buffer[0], 1, sizeof buffer, pipe)) > 0;)
        answer.out.append(&buffer[0], n);
    const int status = ::pclose(pipe);
    answer.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return answer;
}

TEST(BenchProgram, TellsTheFloorAsOneDocument)
{
    const sys::TempDir dir;
    const auto answer = run("floor --rounds 5 --repeats 1 --ci --json --data " + dir / "state");
    const auto parsed = json::parse(answer.out);
    ASSERT_TRUE(parsed) << answer.out;
    if (const auto* error = parsed->as_object().if_contains("error"))
        if (error->as_object().at("code").as_string() == "unsupported")
            GTEST_SKIP() << answer.out << "\nberth doctor tells the command that enables sandboxes here";
    ASSERT_TRUE(parsed->as_object().contains("total")) << answer.out;
    EXPECT_EQ(answer.code, 0) << answer.out;
    const auto& table = parsed->as_object().at("tables").as_array().at(0).as_object();
    EXPECT_EQ(table.at("series").as_array().size(), 3u);
    for (const auto& series : table.at("series").as_array()) {
        EXPECT_EQ(series.as_object().at("count").to_number<int>(), 5);
        EXPECT_GT(series.as_object().at("min").to_number<double>(), 0);
    }
    EXPECT_TRUE(table.at("problems").as_array().empty()) << answer.out;
    EXPECT_GE(parsed->as_object().at("machine").as_object().at("cores").to_number<int>(), 1);
}

TEST(BenchProgram, RefusesWhatItDoesNotKnowWithTheNearestWord)
{
    const sys::TempDir dir;
    const auto answer = run("flor --json --data " + dir / "state");
    EXPECT_EQ(answer.code, 2);
    EXPECT_NE(answer.out.find("did you mean floor"), std::string::npos) << answer.out;
}

} // namespace
} // namespace berth::bench

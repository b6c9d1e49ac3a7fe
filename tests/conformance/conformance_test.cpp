// Every backend of this machine does what every backend must: the checks of src/conformance, group by group.

#include <cstdlib>
#include <iostream>
#include <set>
#include <string>
#include <tuple>

#include <gtest/gtest.h>

#include "backend/registry.hpp"
#include "base/io.hpp"
#include "conformance/runner.hpp"
#include "support/docker_engine.hpp"
#include "support/places.hpp"

namespace berth::conformance {
namespace {

/// The one line that a new backend needs: those that work without an account.
const std::vector<std::string> kBackends{"docker", "local"};

/// What a backend needs to be there, started by the first test that asks for it; why it cannot be.
std::string prepare(const std::string& backend, Options& options)
{
    if (backend != "docker") return {};
    static const test::DockerEngine engine;
    if (!engine.ready()) return engine.reason();
    options.root = {.kind = Template::Kind::Tar, .path = engine.root_tar(), .tag = {}};
    return {};
}

std::vector<std::string> group_names()
{
    std::vector<std::string> out;
    for (const auto& group : groups()) out.emplace_back(group.name);
    return out;
}

std::string temporary_directory()
{
    const char* named = std::getenv("TMPDIR");
    return named != nullptr && *named == '/' ? named : "/tmp";
}

class Conformance : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {};

TEST_P(Conformance, HoldsForEveryCheckOfTheGroup)
{
    const auto& [backend, group] = GetParam();
    const auto checks = choose({group});
    ASSERT_TRUE(checks) << checks.error().line();
    RunOptions options;
    options.place.backend = backend;
    options.place.directory = temporary_directory();
    if (const auto lacking = prepare(backend, options.place); !lacking.empty()) GTEST_SKIP() << lacking;
    const auto report = run(backends(), *checks, options);
    ASSERT_TRUE(report) << report.error().line();
    for (const auto& finding : report->findings) {
        if (finding.outcome == Outcome::Failed)
            ADD_FAILURE() << finding.group << ": " << finding.name << "\n  " << finding.message;
        else if (finding.outcome == Outcome::Skipped)
            std::cout << render_line(finding);
    }
    std::cout << render_summary(*report);
    EXPECT_TRUE(report->ok());
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<std::string, std::string>>& info)
{
    std::string name = std::get<0>(info.param) + "_" + std::get<1>(info.param);
    for (auto& byte : name)
        if (byte == '-') byte = '_';
    return name;
}

INSTANTIATE_TEST_SUITE_P(Backends, Conformance,
                         ::testing::Combine(::testing::ValuesIn(kBackends),
                                            ::testing::ValuesIn(group_names())),
                         name_of);

TEST(Kit, HasMoreThanAHundredAndFiftyChecks) { EXPECT_GE(choose({})->size(), 150u); }

TEST(Kit, NamesEveryCheckOnce)
{
    std::set<std::string> names;
    for (const auto& check : *choose({}))
        EXPECT_TRUE(names.insert(std::string(check.group) + ": " + check.name).second) << check.name;
}

TEST(Kit, DocumentsEveryGroup)
{
    const auto page = read_file(BERTH_SOURCE_DIR "/docs/reference/conformance.md");
    ASSERT_TRUE(page) << page.error().line();
    for (const auto& group : groups())
        EXPECT_NE(page->find("| `" + std::string(group.name) + "` |"), std::string::npos) << group.name;
}

TEST(Kit, FindsChecksByGroupNameAndPart)
{
    EXPECT_GT(choose({"files"})->size(), 5u);
    EXPECT_EQ(choose({"exit code 42 is told"})->size(), 1u);
    EXPECT_EQ(choose({"endings: exit code 42 is told"})->size(), 1u);
    EXPECT_GT(choose({"exit code"})->size(), 3u);
    EXPECT_EQ(choose({"file"}).has_value(), true) << "part of a name";
    const auto none = choose({"fils"});
    ASSERT_FALSE(none);
    EXPECT_NE(none.error().message.find("did you mean files?"), std::string::npos) << none.error().message;
}

} // namespace
} // namespace berth::conformance

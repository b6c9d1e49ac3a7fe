#include <sstream>

#include <gtest/gtest.h>

#include "base/io.hpp"
#include "policy/bind.hpp"
#include "policy/demand.hpp"
#include "policy/document.hpp"
#include "support/places.hpp"

namespace berth::policy {
namespace {

struct Example {
    Syntax syntax = Syntax::Json;
    std::string text;
    int line = 0;
};

/// The fenced blocks that follow the marker.
std::vector<Example> examples(const std::string& page)
{
    std::vector<Example> found;
    std::istringstream lines(page);
    std::string line;
    bool marked = false;
    bool inside = false;
    for (int number = 1; std::getline(lines, line); ++number) {
        if (line == "<!-- test: policy -->") {
            marked = true;
        } else if (marked && (line == "```json" || line == "```toml")) {
            found.push_back({line == "```json" ? Syntax::Json : Syntax::Toml, {}, number});
            inside = true;
            marked = false;
        } else if (inside && line == "```") {
            inside = false;
        } else if (inside) {
            found.back().text += line + "\n";
        }
    }
    EXPECT_FALSE(inside || marked) << "a marker without a block, or a block without an end";
    return found;
}

std::string page()
{
    const auto text = read_file(BERTH_SOURCE_DIR "/docs/reference/policy.md");
    EXPECT_TRUE(text) << text.error().message;
    return text.value_or("");
}

TEST(Documentation, ItsExamplesParseAndBind)
{
    const auto all = examples(page());
    EXPECT_GE(all.size(), 6u);
    Roots roots;
    roots.workspaces = {"/w"};
    for (const auto& example : all) {
        const auto policy = parse(example.text, example.syntax);
        ASSERT_TRUE(policy) << "line " << example.line << ": " << policy.error().message;
        EXPECT_TRUE(bind_files(*policy, roots)) << "line " << example.line;
    }
}

TEST(Documentation, NamesEveryPresetProtectedNameAndFeature)
{
    const std::string text = page();
    for (const auto& name : preset_names()) EXPECT_NE(text.find("`" + name + "`"), std::string::npos) << name;
    for (const auto& name : preset("workspace-write")->protected_names)
        EXPECT_NE(text.find("`" + name + "`"), std::string::npos) << name;
    for (const Feature feature : all_features())
        EXPECT_NE(text.find(fmt::format("`{}`", to_string(feature))), std::string::npos)
            << to_string(feature);
}

} // namespace
} // namespace berth::policy

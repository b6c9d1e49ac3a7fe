#include "keeping/protect.hpp"

#include <fcntl.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::keeping {
namespace {

namespace fs = std::filesystem;
using policy::Access;
using testing::Contains;
using testing::IsEmpty;

/// Commands in a live view, beside each other in one workspace.
class Placeholders : public ::testing::Test {
protected:
    void SetUp() override
    {
        std::string pattern = "/tmp/berth-protect-XXXXXX";
        place_ = ::mkdtemp(pattern.data());
        ws_ = place_ + "/ws";
        fs::create_directories(ws_);
        fs::create_directories(place_ + "/state");
        source_.reset(::open(ws_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
        state_.reset(::open((place_ + "/state").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    }
    void TearDown() override { fs::remove_all(place_); }

    RuleSite site(std::vector<std::pair<Access, std::string>> below) const
    {
        RuleSite out;
        out.live = true;
        out.state = state_.get();
        out.shown = {{.source = source_.get(),
                      .path = ws_,
                      .target = ws_,
                      .mode = Mount::Mode::ReadWrite,
                      .workspace = true}};
        out.files.rules = {{.access = Access::Write, .path = ws_, .pattern = {}, .source = ws_}};
        for (const auto& [access, path] : below)
            out.files.rules.push_back(
                {.access = access, .path = ws_ + "/" + path, .pattern = {}, .source = path});
        return out;
    }
    std::optional<ProtectedNames> hold(const RuleSite& at) const
    {
        auto held = ProtectedNames::hold(at);
        if (!held) ADD_FAILURE() << held.error().line();
        return held ? std::optional(*std::move(held)) : std::nullopt;
    }
    std::vector<std::string> there() const
    {
        std::vector<std::string> out;
        for (const auto& entry : fs::recursive_directory_iterator(ws_))
            out.push_back(fs::relative(entry.path(), ws_));
        return out;
    }
    bool no_record() const { return fs::is_empty(place_ + "/state"); }

    std::string place_, ws_;
    UniqueFd source_, state_;
};

TEST_F(Placeholders, StayAsLongAsTheLastCommandThatNeedsThem)
{
    const auto rules = site({{Access::Deny, "secrets"}, {Access::Read, "deep/er/ro"}});
    auto first = hold(rules);
    auto second = hold(rules);
    first.reset();
    EXPECT_TRUE(fs::is_directory(ws_ + "/secrets"));
    EXPECT_TRUE(fs::is_directory(ws_ + "/deep"));
    auto third = hold(rules);
    second.reset();
    EXPECT_TRUE(fs::is_directory(ws_ + "/secrets"));
    EXPECT_TRUE(fs::is_directory(ws_ + "/deep"));
    third.reset();
    EXPECT_THAT(there(), IsEmpty());
    EXPECT_TRUE(no_record());
}

TEST_F(Placeholders, HoldTheSameNameForWhoeverComesLater)
{
    const auto rules = site({{Access::Deny, "deep/er/secret"}});
    auto first = hold(rules);
    auto second = hold(rules);
    EXPECT_EQ(first->paths(), second->paths());
    EXPECT_THAT(second->paths(), Contains(ws_ + "/deep"));
}

TEST_F(Placeholders, OfDifferentRulesStayToo)
{
    auto first = hold(site({{Access::Deny, "deep/secret"}}));
    auto second = hold(site({{Access::Deny, "deep/other"}}));
    first.reset();
    EXPECT_TRUE(fs::is_directory(ws_ + "/deep"));
    second.reset();
    EXPECT_THAT(there(), IsEmpty());
}

TEST_F(Placeholders, LieInAnEmptyDirectoryOfTheUsersOwn)
{
    fs::create_directory(ws_ + "/own");
    const auto rules = site({{Access::Deny, "own/secret"}});
    auto first = hold(rules);
    auto second = hold(rules);
    EXPECT_EQ(second->paths(), std::vector{ws_ + "/own/secret"});
    first.reset();
    EXPECT_TRUE(fs::is_directory(ws_ + "/own/secret"));
    second.reset();
    EXPECT_THAT(there(), testing::ElementsAre("own"));
}

TEST_F(Placeholders, OfADeadOneAreMadeAnew)
{
    fs::create_directory(ws_ + "/secrets");
    std::ofstream(place_ + "/state/placeholder-left-0") << ws_ << '\0' << "secrets";
    auto held = hold(site({{Access::Deny, "secrets"}}));
    EXPECT_TRUE(fs::is_directory(ws_ + "/secrets"));
    EXPECT_EQ(held->locks().size(), 1U);
    held.reset();
    EXPECT_THAT(there(), IsEmpty());
}

TEST_F(Placeholders, OfOthersAreKeptByThoseWhoMakeNone)
{
    auto live = hold(site({{Access::Deny, "secrets"}}));
    auto rules = site({{Access::Deny, "secrets"}, {Access::Deny, "missing"}});
    rules.live = false;
    auto kept = hold(rules);
    live.reset();
    EXPECT_THAT(there(), testing::ElementsAre("secrets"));
    kept.reset();
    EXPECT_THAT(there(), IsEmpty());
}

} // namespace
} // namespace berth::keeping

#include "server/codex/binding.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace berth::codex {
namespace {

namespace fs = std::filesystem;
using policy::Access;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

IntentEntry special(Special kind, FileAccess access, std::string subpath = {})
{
    return {.path = SpecialPath{.kind = kind, .subpath = std::move(subpath)}, .access = access};
}
IntentEntry at(const fs::path& path, FileAccess access)
{
    return {.path = ExactPath{path}, .access = access};
}

class Binding : public ::testing::Test {
protected:
    Binding()
    {
        std::string name = "/var/tmp/berth-binding-XXXXXX";
        top_ = ::mkdtemp(name.data());
        for (const char* dir : {"ws/sub", "ws/secrets", "other", "state"}) fs::create_directories(top_ / dir);
        places_.state = top_ / "state";
    }
    ~Binding() override { fs::remove_all(top_); }

    [[nodiscard]] Intent intent(std::vector<IntentEntry> more = {}) const
    {
        Intent out;
        out.permissions.entries = {special(Special::Root, FileAccess::Read),
                                   special(Special::ProjectRoots, FileAccess::Write)};
        for (auto& entry : more) out.permissions.entries.push_back(std::move(entry));
        out.roots_given = true;
        out.workspace_roots = {top_ / "ws"};
        return out;
    }
    [[nodiscard]] Result<Bound> bind(const Intent& wanted) const
    {
        return bind_intent(wanted, "/", ceiling_, places_);
    }
    [[nodiscard]] std::string refusal(const Intent& wanted) const
    {
        const auto bound = bind(wanted);
        return bound ? "it was bound" : bound.error().message;
    }
    [[nodiscard]] std::string at_top(const std::string& below) const { return top_ / below; }

    fs::path top_;
    Ceiling ceiling_;
    Places places_;
};

TEST_F(Binding, BindsSymbolsToPlacesOfThisMachine)
{
    const auto bound = bind(intent());
    ASSERT_TRUE(bound) << bound.error().message;
    EXPECT_EQ(bound->decide(at_top("ws/f")), Access::Write);
    EXPECT_EQ(bound->decide(at_top("other/f")), Access::Read);
    EXPECT_EQ(bound->decide("/etc/passwd"), Access::Read);
    EXPECT_EQ(bound->decide(at_top("ws/.git/config")), Access::Read);
    EXPECT_EQ(bound->decide(at_top("ws/sub/.codex")), Access::Read);
    EXPECT_EQ(bound->decide(at_top("state/x")), Access::Deny);
    EXPECT_EQ(bound->policy.network, policy::Network::Off);
}

TEST_F(Binding, TakesTheDirectoryForAWorkspaceWhereAnOlderClientSendsNone)
{
    auto wanted = intent();
    wanted.roots_given = false;
    wanted.workspace_roots.clear();
    wanted.cwd = at_top("ws");
    EXPECT_EQ(bind(wanted)->decide(at_top("ws/f")), Access::Write);
    wanted.roots_given = true;
    EXPECT_EQ(bind(wanted)->decide(at_top("ws/f")), Access::Read);
}

TEST_F(Binding, SkipsGrantsOfWhatIsNotHereAndSaysSo)
{
    const auto bound = bind(intent({at("/home/nobody-here/.codex/tmp", FileAccess::Read),
                                    at("/home/nobody-here/w", FileAccess::Write)}));
    ASSERT_TRUE(bound);
    EXPECT_THAT(bound->notes, Contains(HasSubstr("/home/nobody-here/.codex/tmp")));
    EXPECT_THAT(bound->notes, Contains(HasSubstr("/home/nobody-here/w")));
}

TEST_F(Binding, LetsDenyBeatWriteAndWriteBeatReadOnOnePath)
{
    const auto other = top_ / "other";
    EXPECT_EQ(
        bind(intent({at(other, FileAccess::Read), at(other, FileAccess::Write)}))->decide(other.string()),
        Access::Write);
    EXPECT_EQ(
        bind(intent({at(other, FileAccess::Deny), at(other, FileAccess::Write)}))->decide(other.string()),
        Access::Deny);
}

TEST_F(Binding, LiftsAProtectedNameThatIsMadeWritable)
{
    fs::create_directories(top_ / "ws/.git");
    const auto bound = bind(intent({special(Special::ProjectRoots, FileAccess::Write, ".git")}));
    ASSERT_TRUE(bound) << bound.error().message;
    EXPECT_EQ(bound->decide(at_top("ws/.git/config")), Access::Write);
    EXPECT_EQ(bound->decide(at_top("ws/.codex/x")), Access::Read);
}

TEST_F(Binding, ProtectsTheDirectoryAWorktreeNames)
{
    fs::create_directories(top_ / "ws/elsewhere/repo");
    std::ofstream(top_ / "ws/.git") << "gitdir: elsewhere/repo\n";
    EXPECT_EQ(bind(intent())->decide(at_top("ws/elsewhere/repo/config")), Access::Read);
}

TEST_F(Binding, ReadsTheNameOfAWorktreesDirectoryAsGitAndCodexDo)
{
    fs::create_directories(top_ / "ws/repo");
    fs::create_directories(top_ / "ws/repo ");
    for (const auto* const text : {"gitdir: repo\r\n", "gitdir:repo", "gitdir:\trepo \n", "gitdir : repo",
                                   " \ngitdir: repo\n\n", "gitdir: ./repo/\n"}) {
        std::ofstream(top_ / "ws/.git") << text;
        EXPECT_EQ(bind(intent())->decide(at_top("ws/repo/config")), Access::Read) << text;
    }
    std::ofstream(top_ / "ws/.git") << "gitdir: repo \n";
    EXPECT_EQ(bind(intent())->decide(at_top("ws/repo /config")), Access::Read);
    std::ofstream(top_ / "ws/.git") << "gitdir: repo" << std::string(5000, '\n');
    EXPECT_EQ(bind(intent())->decide(at_top("ws/repo/config")), Access::Read);
    std::ofstream(top_ / "ws/.git") << "dir: repo\n";
    EXPECT_EQ(bind(intent())->decide(at_top("ws/repo/config")), Access::Write);
}

TEST_F(Binding, RefusesAProtectedNameThatIsALink)
{
    fs::create_directories(top_ / "ws/real");
    fs::create_directory_symlink("real", top_ / "ws/.git");
    EXPECT_THAT(refusal(intent()), HasSubstr("symbolic link"));
}

TEST_F(Binding, MakesNobodyTheOwnerOfWhatIsBeyondTheCeiling)
{
    ceiling_.roots = {at_top("ws")};
    auto wanted = intent();
    wanted.permissions.entries = {special(Special::Root, FileAccess::Read)};
    wanted.workspace_roots = {"/etc", at_top("ws")};
    const auto bound = bind(wanted);
    ASSERT_TRUE(bound) << bound.error().message;
    EXPECT_EQ(bound->mount_of("/etc/passwd"), nullptr);
    EXPECT_EQ(bound->mount_of(at_top("ws/f"))->target, at_top("ws"));
    EXPECT_THAT(bound->notes, Contains(HasSubstr("/etc is outside")));
}

TEST_F(Binding, RefusesWhatIsBeyondTheCeiling)
{
    ceiling_.roots = {at_top("ws")};
    EXPECT_TRUE(bind(intent()));
    EXPECT_THAT(refusal(intent({at(top_ / "other", FileAccess::Write)})), HasSubstr("outside"));
    EXPECT_THAT(refusal(intent({special(Special::Root, FileAccess::Write),
                                special(Special::ProjectRoots, FileAccess::Deny, "secrets")})),
                HasSubstr("everything writable"));
    EXPECT_THAT(refusal(intent({at(top_ / "state", FileAccess::Write)})), HasSubstr("state"));
    EXPECT_FALSE(bind_intent(std::nullopt, at_top("ws"), ceiling_, places_));
    ceiling_.unsandboxed = Ceiling::Unsandboxed::Confine;
    const auto confined = bind_intent(std::nullopt, at_top("ws"), ceiling_, places_);
    ASSERT_TRUE(confined);
    EXPECT_TRUE(confined->confined);
    EXPECT_EQ(confined->decide(at_top("other/f")), Access::Read);
    ceiling_.unsandboxed = Ceiling::Unsandboxed::Allow;
    EXPECT_FALSE(bind_intent(std::nullopt, at_top("ws"), ceiling_, places_)->confined);
}

TEST_F(Binding, TakesARootThatIsWritableForNoSandbox)
{
    auto everywhere = intent({special(Special::Root, FileAccess::Write)});
    EXPECT_THAT(refusal(everywhere), HasSubstr("write everywhere"));
    everywhere.permissions.network = NetworkIntent::Enabled;
    EXPECT_THAT(refusal(everywhere), HasSubstr("no sandbox was asked for"));
    ceiling_.unsandboxed = Ceiling::Unsandboxed::Allow;
    ASSERT_TRUE(bind(everywhere));
    EXPECT_FALSE(bind(everywhere)->confined);
    EXPECT_FALSE(bind(intent({special(Special::Root, FileAccess::Write)}))); // and no network
    for (const auto& narrower : {special(Special::ProjectRoots, FileAccess::Deny, "secrets"),
                                 special(Special::ProjectRoots, FileAccess::Read, ".git")}) {
        auto less = everywhere;
        less.permissions.entries.push_back(narrower);
        EXPECT_THAT(refusal(less), HasSubstr("everything writable"));
    }
    ceiling_.unsandboxed = Ceiling::Unsandboxed::Confine;
    const auto confined = bind_intent(everywhere, at_top("ws"), ceiling_, places_);
    ASSERT_TRUE(confined) << confined.error().message;
    EXPECT_EQ(confined->decide(at_top("ws/f")), Access::Write);
    EXPECT_EQ(confined->decide(at_top("other/f")), Access::Read);
}

TEST_F(Binding, RefusesWhatACommandCouldUndo)
{
    fs::create_directory_symlink(top_ / "other", top_ / "ws/link");
    EXPECT_THAT(refusal(intent({special(Special::ProjectRoots, FileAccess::Deny, "link")})),
                HasSubstr("replace"));
    EXPECT_THAT(refusal(intent({at(top_ / "ws/link", FileAccess::Write)})), HasSubstr("replace"));
    auto linked = intent();
    linked.workspace_roots.push_back(top_ / "ws/link");
    EXPECT_THAT(refusal(linked), HasSubstr("replace"));
}

TEST_F(Binding, KeepsRulesOfWhatACommandCouldMake)
{
    const auto bound = bind(intent({special(Special::ProjectRoots, FileAccess::Deny, "later"),
                                    special(Special::ProjectRoots, FileAccess::Read, "vendor")}));
    ASSERT_TRUE(bound) << bound.error().message;
    EXPECT_EQ(bound->decide(at_top("ws/later/x")), Access::Deny);
    EXPECT_EQ(bound->decide(at_top("ws/vendor/x")), Access::Read);
}

TEST_F(Binding, MountsNothingThatLiesInSomethingWritable)
{
    const auto bound =
        bind(intent({at(top_ / "ws/sub", FileAccess::Write), at(top_ / "other", FileAccess::Write)}));
    ASSERT_TRUE(bound);
    std::vector<std::string> writable;
    for (const auto& mount : bound->mounts)
        if (mount.mode == Mount::Mode::ReadWrite) writable.push_back(mount.target);
    EXPECT_THAT(writable, ::testing::UnorderedElementsAre(at_top("ws"), at_top("other")));
}

TEST_F(Binding, HoldsPatternsForFiles)
{
    auto wanted = intent();
    wanted.permissions.entries.push_back(
        {.path = GlobPath{.pattern = "**/*.env", .below_roots = true}, .access = FileAccess::Deny});
    const auto bound = bind(wanted);
    ASSERT_TRUE(bound) << bound.error().message;
    EXPECT_EQ(bound->decide(at_top("ws/sub/a.env")), Access::Deny);
    EXPECT_EQ(bound->decide(at_top("ws/sub/a.txt")), Access::Write);
    EXPECT_EQ(bound->decide(at_top("other/a.env")), Access::Read);
}

TEST_F(Binding, HoldsPatternsWhereTheirBeginningLeads)
{
    const auto with = [&](const std::string& pattern, bool below = false) {
        auto wanted = intent();
        wanted.permissions.entries.push_back(
            {.path = GlobPath{.pattern = pattern, .below_roots = below}, .access = FileAccess::Deny});
        return wanted;
    };
    fs::create_directory_symlink(top_ / "ws", top_ / "way");
    for (const auto* const place : {"sub", "later/deep"}) { // also of what is not there yet
        const auto bound = bind(with(fmt::format("{}/{}/*.env", at_top("way"), place)));
        ASSERT_TRUE(bound) << bound.error().message;
        EXPECT_EQ(bound->decide(fmt::format("{}/{}/a.env", at_top("ws"), place)), Access::Deny) << place;
    }
    // Of one name, however it is written.
    for (const auto* const name : {"secrets", "secrets/", "./secrets", "none/", "sub//../../none"}) {
        const auto bound = bind(with(name, true));
        if (std::string_view(name).find("..") != std::string_view::npos) {
            EXPECT_FALSE(bound);
            continue;
        }
        ASSERT_TRUE(bound) << name << ": " << bound.error().message;
        const bool here = std::string_view(name).find("secrets") != std::string_view::npos;
        EXPECT_EQ(bound->decide(at_top(here ? "ws/secrets/x" : "ws/none")), Access::Deny) << name;
    }
    // The command could lead it elsewhere, and the next one would read what this one may not.
    fs::create_directory_symlink("sub", top_ / "ws/link");
    EXPECT_THAT(refusal(with("link/*.env", true)), HasSubstr("replace"));
}

TEST_F(Binding, GivesTheNetworkOnlyWhereTheOperatorDoes)
{
    auto wanted = intent();
    wanted.permissions.network = NetworkIntent::Enabled;
    const auto less = bind(wanted);
    EXPECT_EQ(less->policy.network, policy::Network::Off);
    EXPECT_THAT(less->notes, Contains(HasSubstr("network")));
    ceiling_.network = true;
    EXPECT_EQ(bind(wanted)->policy.network, policy::Network::Host);
    EXPECT_THAT(bind(wanted)->notes, IsEmpty());
}

TEST_F(Binding, LetsDiscoveryReadAndNothingElse)
{
    const auto bound = bind_discovery(ceiling_, places_);
    ASSERT_TRUE(bound);
    EXPECT_EQ(bound->decide(at_top("ws/AGENTS.md")), Access::Read);
    EXPECT_EQ(bound->decide(at_top("state/x")), Access::Deny);
}

} // namespace
} // namespace berth::codex

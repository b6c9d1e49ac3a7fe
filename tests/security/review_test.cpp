// Ways past a rule that holds at first sight: by what stood there before, by an earlier run, by
// another name of the same place.

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include <gtest/gtest.h>

#include "sandbox.hpp"

using namespace security;

namespace {

class review : public ::testing::Test {
protected:
    [[nodiscard]] Outcome workspace_write(const std::string& script) const
    {
        return inside(script, {"--workspace", tree_.path(), "--policy", "workspace-write"});
    }
    /// A policy in a file beside the workspace.
    [[nodiscard]] std::string policy(const std::string& text) const
    {
        rules_.file("policy.json", text);
        return rules_.at("policy.json");
    }
    TempTree tree_;
    TempTree rules_;
};

} // namespace

TEST_F(review, replace_link_with_protected_name)
{
    tree_.directory("real");
    std::filesystem::create_directory_symlink("real", tree_.at(".git"));
    const auto refused = workspace_write("rm .git; mkdir .git");
    EXPECT_EQ(refused.code, 125);
    EXPECT_NE(refused.err.find(".git is a symbolic link"), std::string::npos) << refused.err;
    EXPECT_TRUE(std::filesystem::is_symlink(tree_.at(".git")));
}

TEST_F(review, close_directory_for_the_next_search)
{
    if (as_root()) GTEST_SKIP() << "root can look into every directory; run with --as=user";
    tree_.file("sub/.git/config", "as it was");
    EXPECT_EQ(workspace_write("chmod 0 sub").code, 0);
    const auto second = workspace_write("chmod 755 sub; /probe open-write sub/.git/config");
    EXPECT_EQ(::chmod(tree_.at("sub").c_str(), 0755), 0);
    EXPECT_EQ(second.code, 125);
    EXPECT_NE(second.err.find("/sub: Permission denied"), std::string::npos) << second.err;
    EXPECT_EQ(tree_.read("sub/.git/config"), "as it was");
}

TEST_F(review, read_denied_place_by_a_link_of_the_template)
{
    const auto refused =
        inside("ls /bin", {"--policy", policy(R"({"files": [{"read": ":root"}, {"deny": "/bin"}]})")});
    EXPECT_EQ(refused.code, 125);
    EXPECT_NE(refused.err.find("/bin is a link to /usr/bin"), std::string::npos) << refused.err;
}

TEST_F(review, read_what_is_denied_in_a_protected_place)
{
    tree_.file(".git/config", "seen\n");
    tree_.file(".git/token", "secret\n");
    tree_.file(".codex/auth", "secret\n");
    const std::string rules = policy(R"({"files": [{"read": ":root"}, {"write": ":workspace_roots"},
                   {"deny": ":workspace_roots/.git/token"}, {"deny": ":workspace_roots/.codex"}],
                   "protect": [".git", ".codex"]})");
    EXPECT_EQ(answer("cat .git/config; cat .git/token .codex/auth; /probe open-write .git/config; true",
                     {"--workspace", tree_.path(), "--policy", rules}),
              "seen\nEROFS\n");
}

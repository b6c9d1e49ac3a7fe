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

TEST_F(review, move_the_parent_of_what_is_only_to_be_read)
{
    tree_.file("sub/conf/settings", "as it was");
    const std::string rules = policy(R"({"files": [{"read": ":root"}, {"write": ":workspace_roots"},
                                                   {"read": ":workspace_roots/sub/conf"}]})");
    EXPECT_EQ(answer("mv sub old 2>/dev/null && echo moved; mkdir -p sub/conf; echo EVIL 2>/dev/null "
                     ">sub/conf/settings; echo fine >sub/other; cat sub/other",
                     {"--workspace", tree_.path(), "--policy", rules})
                  .substr(0, 5),
              "fine\n");
    EXPECT_EQ(tree_.read("sub/conf/settings"), "as it was");
    EXPECT_EQ(tree_.read("sub/other"), "fine\n");
}

TEST_F(review, move_the_parent_of_what_is_denied)
{
    tree_.file("a/b/secret", "secret");
    const std::string rules = policy(R"({"files": [{"read": ":root"}, {"write": ":workspace_roots"},
                                                   {"deny": ":workspace_roots/a/b/secret"}]})");
    EXPECT_EQ(answer("/probe rename a old; /probe rename a/b old; cat a/b/secret 2>/dev/null; true",
                     {"--workspace", tree_.path(), "--policy", rules}),
              "EBUSY\nEXDEV\n");
}

TEST_F(review, make_what_is_only_to_be_read)
{
    const std::string rules = policy(
        R"({"files": [{"read": ":root"}, {"write": ":workspace_roots"}, {"read": ":workspace_roots/ci"}]})");
    const auto refused = inside("mkdir ci", {"--workspace", tree_.path(), "--policy", rules});
    EXPECT_EQ(refused.code, 125);
    EXPECT_NE(refused.err.find("does not exist"), std::string::npos) << refused.err;
    EXPECT_FALSE(tree_.exists("ci"));
}

TEST_F(review, make_what_is_denied_in_the_own_root)
{
    const std::string rules = policy(R"({"files": [{"read": ":root"}, {"write": ":home"},
                                                   {"deny": "/home/user/keys/key"}, {"read": "/home/user/conf"}]})");
    EXPECT_EQ(
        answer("(echo x >~/keys/key) 2>/dev/null || echo denied; mv ~/keys ~/k 2>/dev/null || echo held; "
               "(echo x >~/conf/f) 2>/dev/null || echo 'read only'; mv ~/conf ~/c 2>/dev/null || echo held; "
               "true",
               {"--policy", rules})
            .substr(0, 29),
        "denied\nheld\nread only\nheld\n");
}

TEST_F(review, read_again_below_what_is_denied)
{
    const std::string rules = policy(R"({"files": [{"read": ":minimal"}, {"write": ":tmpdir"},
                                  {"deny": "/usr/share"}, {"read": "/usr/share/doc"}, {"read": "/probe"}, {"write": ":home"}]})");
    EXPECT_EQ(
        answer(
            "ls /usr/share/doc | head -n 1 | wc -l; ls -d /usr/share/man /usr/share/base-files 2>/dev/null; "
            "true",
            {"--policy", rules}),
        "1\n");
}

TEST_F(review, make_protected_name_where_writing_begins)
{
    tree_.directory("sub");
    const std::string rules =
        policy(R"({"files": [{"read": ":root"}, {"write": ":workspace_roots/sub"}], "protect": [".git"]})");
    EXPECT_EQ(answer("/probe create sub/.git/hook; /probe create sub/f",
                     {"--workspace", tree_.path(), "--policy", rules}),
              "EROFS\nok\n");
    EXPECT_FALSE(tree_.exists("sub/.git"));
    EXPECT_TRUE(tree_.exists("sub/f"));
}

TEST_F(review, move_the_parent_of_a_mount_in_a_mount)
{
    tree_.file("a/b/secret", "secret");
    const std::string rules = policy(R"({"files": [{"read": ":root"}, {"write": ")" + tree_.path() +
                                     R"("}, {"deny": ")" + tree_.at("a/b/secret") + R"("}]})");
    EXPECT_EQ(answer("/probe rename " + tree_.at("a") + " " + tree_.at("c") + "; cat " +
                         tree_.at("a/b/secret") + " 2>/dev/null; true",
                     {"--mount", tree_.path() + ":" + tree_.path() + ":rw", "--mount",
                      tree_.at("a/b") + ":" + tree_.at("a/b") + ":rw", "--policy", rules}),
              "EBUSY\n");
}

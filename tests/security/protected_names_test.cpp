// Names that programs on the host obey (.git and friends), under the policy `workspace-write`.

#include <filesystem>

#include <gtest/gtest.h>

#include "sandbox.hpp"

using namespace security;

namespace {

/// A repository in which nothing of .git may change; its files may.
class protected_names : public ::testing::Test {
protected:
    void SetUp() override
    {
        tree_.file(".git/config", "as it was");
        tree_.file(".git/hooks/pre-commit", "as it was");
        tree_.file("file", "mine\n");
    }
    void TearDown() override
    {
        EXPECT_EQ(tree_.read(".git/config"), "as it was");
        EXPECT_EQ(tree_.read(".git/hooks/pre-commit"), "as it was");
        EXPECT_TRUE(std::filesystem::is_directory(std::filesystem::symlink_status(tree_.at(".git"))));
        EXPECT_FALSE(tree_.exists(".codex")) << "no placeholder stays behind";
    }
    [[nodiscard]] std::string attempt(const std::string& script) const
    {
        return answer(script, {"--workspace", tree_.path(), "--policy", "workspace-write"});
    }
    TempTree tree_;
};

} // namespace

TEST_F(protected_names, write_below_name)
{
    EXPECT_EQ(attempt("/probe open-write .git/config; /probe create .git/hooks/post-merge; /probe truncate "
                      ".git/config; "
                      "echo changed >file; cat file .git/config"),
              "EROFS\nEROFS\nEROFS\nchanged\nas it was");
}

TEST_F(protected_names, rename_name_away)
{
    EXPECT_EQ(attempt("/probe rename .git old; /probe rename file file2; cat file2"), "EBUSY\nok\nmine\n");
}

TEST_F(protected_names, rename_onto_name)
{
    EXPECT_EQ(attempt("mkdir -p evil/hooks; /probe rename evil .git; /probe exchange evil .git; rmdir "
                      "evil/hooks; /probe rename "
                      "evil good"),
              "EBUSY\nEBUSY\nok\n");
}

TEST_F(protected_names, remove_name)
{
    EXPECT_EQ(attempt("rm -rf .git 2>/dev/null; rmdir .git 2>/dev/null; rm file; ls"), "");
}

TEST_F(protected_names, hard_link_into_and_out_of_name)
{
    EXPECT_EQ(attempt("/probe link file .git/hooks/x; /probe link .git/config c; /probe link file g"),
              "EROFS\nEXDEV\nok\n");
}

TEST_F(protected_names, write_through_symlink_to_name)
{
    EXPECT_EQ(attempt("ln -s .git g; /probe open-write g/config; ln -s .git/config c; /probe open-write c; "
                      "ln -s file f; "
                      "/probe open-write f"),
              "EROFS\nEROFS\nok\n");
}

TEST_F(protected_names, write_through_proc)
{
    EXPECT_EQ(attempt("/probe open-write /proc/self/cwd/.git/config; /probe open-write /proc/self/root" +
                      tree_.at(".git/config") + "; exec 5<.git/config; /probe open-write /proc/self/fd/5"),
              "EROFS\nEROFS\nEROFS\n");
}

TEST_F(protected_names, bind_over_name)
{
    EXPECT_EQ(attempt("mkdir evil; /probe bind evil .git; /probe unmount .git; /probe remount .git; /probe "
                      "mount-setattr .git"),
              "EPERM\nEPERM\nEPERM\nEPERM\n");
}

TEST_F(protected_names, write_name_in_another_case)
{
    // On file systems that tell cases apart it is another name; on others it leads to the same place.
    const auto said = attempt(
        "/probe create .GIT/config; mkdir .Git 2>/dev/null; /probe create .Git/config; cat .git/config");
    EXPECT_TRUE(said.ends_with("as it was")) << said;
}

TEST_F(protected_names, create_name_that_is_missing)
{
    EXPECT_EQ(attempt("/probe create .codex/config.toml; mkdir .claude 2>/dev/null; /probe create "
                      ".claude/settings.json; "
                      "/probe rename file .mcp.json; /probe create .envrc2"),
              "EROFS\nEROFS\nEISDIR\nok\n");
}

TEST_F(protected_names, replace_name_by_file_or_link)
{
    EXPECT_EQ(attempt("ln -s /tmp .vscode 2>/dev/null; ln -sfn /tmp .git 2>/dev/null; /probe rename file "
                      ".husky; /probe "
                      "create new"),
              "EISDIR\nok\n");
    EXPECT_FALSE(tree_.exists(".vscode"));
}

TEST_F(protected_names, change_name_in_subdirectory)
{
    tree_.file("sub/.git/config", "as it was");
    EXPECT_EQ(
        attempt("/probe open-write sub/.git/config; /probe rename sub/.git sub/old; /probe create sub/new"),
        "EROFS\nEBUSY\nok\n");
    EXPECT_EQ(tree_.read("sub/.git/config"), "as it was");
}

TEST_F(protected_names, replace_parent_directory)
{
    // Neither the workspace nor a directory in it that holds a protected name can be moved away, so that
    // nothing else can be put in its place.
    tree_.file("sub/.git/config", "as it was");
    const auto said = attempt(
        "/probe rename . ../x; /probe rename sub moved; /probe open-write sub/.git/config; /probe rename " +
        tree_.path() + " /tmp/moved");
    EXPECT_TRUE(said.starts_with("EXDEV\nEBUSY\nEROFS\nE")) << said;
    EXPECT_EQ(tree_.read("sub/.git/config"), "as it was");
}

TEST_F(protected_names, git_file_of_a_worktree)
{
    tree_.file("tree/.git", "gitdir: elsewhere");
    EXPECT_EQ(attempt("/probe open-write tree/.git; /probe rename file tree/.git; rm -f tree/.git "
                      "2>/dev/null; cat tree/.git"),
              "EROFS\nEXDEV\ngitdir: elsewhere");
}

// File rules of a policy: what is denied, what is only to be read, what is not named.

#include <filesystem>

#include <gmock/gmock.h>

#include "sandbox.hpp"

using namespace security;
using ::testing::HasSubstr;
using ::testing::Not;

namespace {

/// A workspace with one denied directory and one denied file.
class deny_rules : public ::testing::Test {
protected:
    void SetUp() override
    {
        tree_.file("private/key", "the secret");
        tree_.file("token", "the secret");
        tree_.file("open", "mine\n");
        policy_.file("p.json", R"({"extends": "workspace-write", "files": [{"deny": ")" +
                                   tree_.at("private") + R"("}, {"deny": ")" + tree_.at("token") + R"("}]})");
    }
    [[nodiscard]] Outcome attempt(const std::string& script, bool root = false) const
    {
        Words options{"--workspace", tree_.path(), "--policy", policy_.at("p.json")};
        if (root)
            for (const auto& word : mightiest()) options.push_back(word);
        const auto outcome = inside(script, options);
        EXPECT_THAT(outcome.out + outcome.err, Not(HasSubstr("the secret")));
        EXPECT_EQ(tree_.read("private/key"), "the secret");
        EXPECT_EQ(tree_.read("token"), "the secret");
        return outcome;
    }
    TempTree tree_;
    TempTree policy_;
};

} // namespace

TEST_F(deny_rules, read_by_path)
{
    EXPECT_EQ(attempt("cat private/key token; ls private; cat open").out, "mine\n");
    EXPECT_EQ(attempt("cat private/key token; ls private; cat open", true).out, "mine\n");
}

TEST_F(deny_rules, read_by_proc)
{
    EXPECT_EQ(attempt("for p in /proc/self/root /proc/1/root /proc/self/cwd/../../../../..; do cat $p" +
                          tree_.at("token") + " $p" + tree_.at("private/key") +
                          "; done; cat /proc/self/cwd/open",
                      true)
                  .out,
              "mine\n");
}

TEST_F(deny_rules, read_by_symlink)
{
    EXPECT_EQ(attempt("ln -s token t; ln -s private p; cat t p/key; ln -s open o; cat o").out, "mine\n");
}

TEST_F(deny_rules, read_by_hard_link)
{
    EXPECT_EQ(
        attempt("/probe link token t; /probe link private/key k; /probe link open o; cat o").out.substr(0, 6),
        "EXDEV\n");
}

TEST_F(deny_rules, read_by_rename)
{
    EXPECT_EQ(
        attempt("/probe rename token t; /probe rename private p; /probe exchange open token; cat open").out,
        "EBUSY\nEBUSY\nEBUSY\nmine\n");
}

TEST_F(deny_rules, uncover)
{
    EXPECT_EQ(
        attempt("/probe unmount token; /probe unmount private; /probe open-tree .; /probe chmod private",
                true)
            .out,
        "EPERM\nEPERM\nEPERM\nEROFS\n");
}

TEST_F(deny_rules, write_or_remove)
{
    EXPECT_EQ(
        attempt(
            "rm -rf private token 2>/dev/null; /probe open-write token; /probe create private/new; echo fine "
            ">mine")
            .out,
        "EACCES\nEACCES\n");
    EXPECT_EQ(tree_.read("mine"), "fine\n");
}

TEST(read_only_rules, write_anywhere)
{
    const TempTree workspace;
    workspace.file("f", "as it was");
    Words options{"--workspace", workspace.path(), "--policy", "read-only"};
    for (const auto& word : mightiest()) options.push_back(word);
    EXPECT_EQ(answer("for p in f /etc/hosts /home/user/.profile; do /probe open-write $p; done; for d in . "
                     "/tmp /var/tmp "
                     "/usr/local /home/user /run/lock; do /probe create $d/new; done | sort -u; cat f; echo "
                     "x >/dev/null && "
                     "echo ' and /dev works'",
                     options),
              "EROFS\nEROFS\nEROFS\nEROFS\nas it was and /dev works\n");
    EXPECT_FALSE(workspace.exists("new"));
}

TEST(read_only_rules, remount_writable)
{
    Words options{"--policy", "read-only"};
    for (const auto& word : mightiest()) options.push_back(word);
    EXPECT_EQ(answer("/probe remount /; /probe mount-setattr /; /probe create /tmp/f", options),
              "EPERM\nEPERM\nEROFS\n");
}

TEST(write_rules, write_outside_the_workspace)
{
    const TempTree workspace;
    Words options{"--workspace", workspace.path(), "--policy", "workspace-write"};
    EXPECT_EQ(answer("/probe create /etc/f; /probe create ~/f; /probe create /usr/local/f; /probe create f; "
                     "/probe create /tmp/f",
                     options),
              "EROFS\nEROFS\nEROFS\nok\nok\n");
}

TEST(nested_rules, reach_a_denied_file_beside_a_protected_name)
{
    const TempTree tree;
    const TempTree policy;
    tree.file("sub/.git/config", "config");
    tree.file("sub/key", "the secret");
    tree.file("sub/fixed", "old");
    for (const std::string top : {R"({"read": ":root"})", R"({"read": ":minimal"}, {"read": "/probe"})"}) {
        policy.file("p.json", R"({"files": [)" + top + R"(, {"write": ":workspace_roots"}, {"deny": ")" +
                                  tree.at("sub/key") + R"("}, {"read": ")" + tree.at("sub/fixed") +
                                  R"("}], "protect": [".git"]})");
        const auto outcome =
            inside("cat sub/key; echo new > sub/fixed; echo new > sub/.git/config; echo mine > sub/f; "
                   "cat sub/f",
                   {"--workspace", tree.path(), "--policy", policy.at("p.json")});
        EXPECT_EQ(outcome.out, "mine\n") << outcome.err;
        EXPECT_EQ(tree.read("sub/fixed"), "old");
        EXPECT_EQ(tree.read("sub/.git/config"), "config");
    }
}

TEST(unnamed, reach_what_no_rule_names)
{
    const TempTree policy;
    policy.file("p.json", R"({"files": [{"read": ":minimal"}, {"write": ":home"}, {"read": "/probe"}]})");
    EXPECT_EQ(answer("ls -d /tmp /var /root /opt /srv 2>/dev/null; echo mine >~/f; cat ~/f; /probe create "
                     "/etc/f; /probe "
                     "create /new",
                     {"--policy", policy.at("p.json")}),
              "mine\nEROFS\nEROFS\n");
}

TEST(unnamed, ask_for_a_rule_that_cannot_be_held)
{
    const TempTree policy;
    policy.file("p.json", R"({"extends": "workspace-write", "files": [{"read": "**/.env"}]})");
    const auto refused = inside("echo ran", {"--policy", policy.at("p.json")});
    EXPECT_EQ(refused.code, 125);
    EXPECT_EQ(refused.out, "");
    EXPECT_THAT(refused.err, HasSubstr(".env"));
}

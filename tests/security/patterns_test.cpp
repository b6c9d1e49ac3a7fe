// Deny patterns: what they name cannot be read, changed, moved or executed, also when it is made later, by
// whatever way; and what they do not name can.

#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>

#include "sandbox.hpp"

using namespace security;
using ::testing::HasSubstr;
using ::testing::Not;

namespace {

class patterns : public ::testing::Test {
protected:
    void SetUp() override
    {
        tree_.file("a.env", "the secret\n");
        tree_.file("deep/er/b.env", "the secret\n");
        tree_.file("private/key", "the secret\n");
        tree_.file("open", "mine\n");
        tree_.file("deep/open", "mine\n");
        policy_.file("p.json", R"({"extends": "workspace-write", "files": [{"deny": ")" + tree_.path() +
                                   R"(/**/*.env"}, {"deny": ")" + tree_.path() + R"(/private/**"}]})");
    }
    [[nodiscard]] Words options() const
    {
        return {"--workspace", tree_.path(), "--policy", policy_.at("p.json")};
    }
    /// What it prints; whatever it does, nothing of what is denied gets out or is changed.
    [[nodiscard]] std::string attempt(const std::string& script, const Words& more = {}) const
    {
        Words all = options();
        all.insert(all.end(), more.begin(), more.end());
        const auto outcome = inside(script, all);
        EXPECT_THAT(outcome.out + outcome.err, Not(HasSubstr("the secret")));
        for (const char* name : {"a.env", "deep/er/b.env", "private/key"})
            EXPECT_EQ(tree_.read(name), "the secret\n") << name;
        EXPECT_EQ(outcome.code, 0) << outcome.err;
        return outcome.out;
    }
    /// A program that says "leaked", under a name that is denied.
    void put_program(const std::string& name) const
    {
        std::filesystem::copy_file(place() + "/probe", tree_.at(name));
        if (as_root()) EXPECT_EQ(::chown(tree_.at(name).c_str(), 12345, 12345), 0);
    }
    TempTree tree_;
    TempTree policy_;
};

} // namespace

TEST_F(patterns, read_by_path)
{
    const std::string all = "for f in a.env ./deep/er/b.env deep/../a.env private/key $PWD/a.env; do "
                            "/probe open-read $f; done; cat open deep/open";
    const std::string refused = "EACCES\nEACCES\nEACCES\nEACCES\nEACCES\nmine\nmine\n";
    EXPECT_EQ(attempt(all), refused);
    EXPECT_EQ(attempt(all, mightiest()), refused);
}

TEST_F(patterns, change_by_path)
{
    EXPECT_EQ(attempt("for p in open-write truncate chmod touch unlink; do /probe $p a.env; done; "
                      "/probe create c.env; /probe mkdir d.env; /probe symlink open e.env; "
                      "/probe nameless . f.env; ls -d *.env",
                      mightiest()),
              "EACCES\nEACCES\nEACCES\nEACCES\nEACCES\nEACCES\nEACCES\nEACCES\nEACCES\na.env\n");
}

TEST_F(patterns, read_what_is_made_later)
{
    Running running(options(), "echo ready; until [ -e later.env ]; do :; done; /probe open-read later.env; "
                               "/probe open-read deep/new/later.env; cat open");
    EXPECT_EQ(running.line(), "ready");
    tree_.file("deep/new/later.env", "the secret\n");
    tree_.file("later.env", "the secret\n");
    EXPECT_EQ(running.line(), "EACCES");
    EXPECT_EQ(running.line(), "EACCES");
    EXPECT_EQ(running.line(), "mine");
}

TEST_F(patterns, read_by_proc)
{
    EXPECT_EQ(attempt("for p in /proc/self/root /proc/1/root /proc/self/cwd/../../../../../../.. "
                      "/proc/thread-self/root /proc/$$/root; do /probe open-read $p$PWD/a.env; done; "
                      "/probe open-read /proc/self/cwd/a.env; cat /proc/self/cwd/open; exec 5< open; "
                      "cat /proc/self/fd/5 /dev/fd/5",
                      mightiest()),
              // Whether there is a first process an ordinary user's sandbox does not even tell.
              std::string("EACCES\n") + (as_root() ? "EACCES" : "ENOENT") +
                  "\nEACCES\nEACCES\nEACCES\nEACCES\nmine\nmine\nmine\n");
}

TEST_F(patterns, read_by_symlink)
{
    EXPECT_EQ(
        attempt("ln -s a.env t; ln -s private p; ln -s ../a.env deep/u; /probe open-read t; "
                "/probe open-read p/key; /probe open-read deep/u; ln -s open o; cat o; rm t p deep/u o"),
        "EACCES\nEACCES\nEACCES\nmine\n");
}

TEST_F(patterns, link_to_it)
{
    EXPECT_EQ(attempt("/probe link a.env t; /probe link private/key k; /probe link open o.env; "
                      "/probe link open o; cat o; rm o"),
              "EACCES\nEACCES\nEACCES\nok\nmine\n");
}

TEST_F(patterns, move_it)
{
    EXPECT_EQ(attempt("/probe rename a.env t; /probe rename open o.env; /probe exchange open a.env; "
                      "/probe rename private/key k; /probe rename open o; /probe rename o open"),
              "EACCES\nEACCES\nEACCES\nEACCES\nok\nok\n");
}

TEST_F(patterns, move_a_directory_above_it)
{
    // Within what the pattern covers a directory may be moved, out of it not; a program that moves then
    // copies.
    EXPECT_EQ(
        attempt("/probe rename private moved; /probe exchange private deep; /probe rename deep /tmp/deep; "
                "/probe rename deep depth; /probe open-read depth/er/b.env; /probe rename depth deep"),
        "EXDEV\nEXDEV\nEXDEV\nok\nEACCES\nok\n");
}

TEST_F(patterns, reopen_a_descriptor_for_the_path)
{
    EXPECT_EQ(attempt("/probe path-descriptor a.env"),
              "open EACCES\nwrite EACCES\nopenat ENOENT\nlink EACCES\nlink-empty ENOENT\ntruncate EACCES\n"
              "chmod EACCES\nexec EACCES\n");
}

TEST_F(patterns, read_relative_to_a_directory)
{
    EXPECT_EQ(
        attempt("/probe by-dirfd deep/er b.env; /probe by-dirfd deep open; /probe by-fchdir deep/er b.env; "
                "/probe by-fchdir deep open; /probe by-own-thread deep/er b.env; "
                "/probe by-own-thread deep open; cd deep/er; /probe open-read b.env; cat ../open"),
        "EACCES\nread mine\nEACCES\nread mine\nEACCES\nread mine\nEACCES\nmine\n");
}

TEST_F(patterns, ask_by_memory)
{
    // What it is asked stands in memory, which a supervisor could only have looked at.
    EXPECT_EQ(attempt("/probe by-openat2 open"), "ENOSYS\n");
}

TEST_F(patterns, change_the_path_meanwhile)
{
    tree_.file("o.txt", "mine\n");
    EXPECT_EQ(attempt("/probe path-race $PWD/o.txt $PWD/a.env 5000"), "held\n");
    EXPECT_EQ(attempt("/probe path-race $PWD/o.txt $PWD/a.env 2000", mightiest()), "held\n");
}

TEST_F(patterns, swap_a_link_meanwhile)
{
    EXPECT_EQ(attempt("ln -s open swap; /probe link-race open a.env swap 2000; rm -f swap swap.next"),
              "held\n");
}

TEST_F(patterns, execute_it)
{
    put_program("tool.env");
    put_program("tool");
    EXPECT_EQ(attempt("/probe execute tool.env; ./tool leaked; ln -s tool.env t; /probe execute t; rm t"),
              "EACCES\nleaked\nEACCES\n");
}

TEST_F(patterns, change_what_is_executed_meanwhile)
{
    put_program("tool.env");
    std::filesystem::copy_file("/bin/true", tree_.at("true.bin"));
    EXPECT_EQ(attempt("/probe exec-race $PWD/true.bin $PWD/tool.env 300"), "over\n");
}

TEST_F(patterns, look_into_the_supervisor)
{
    EXPECT_EQ(attempt("for f in mem maps environ fd root/etc/passwd task/2/mem; do "
                      "/probe open-read /proc/2/$f; done | sort -u"),
              "EACCES\n");
}

TEST_F(patterns, end_the_supervisor)
{
    Running running(options(),
                    "echo ready; until [ -e go ]; do :; done; if read x < open; then echo $x; else "
                    "echo closed; fi; if read x < a.env; then echo $x; else echo closed; fi; "
                    "/probe leaked || echo not run");
    EXPECT_EQ(running.line(), "ready");
    pid_t found = 0;
    for (const pid_t pid : processes_named("berth-supervisor")) {
        std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
        std::string word;
        pid_t parent = 0;
        stat >> word >> word >> word >> parent;
        if (parent == running.first_process()) found = pid;
    }
    ASSERT_NE(found, 0);
    ASSERT_EQ(::kill(found, SIGKILL), 0);
    tree_.file("go", "");
    EXPECT_EQ(running.line(), "closed");
    EXPECT_EQ(running.line(), "closed");
    EXPECT_EQ(running.line(), "not run");
}

TEST_F(patterns, end_the_supervisor_from_inside)
{
    const auto said =
        attempt("/probe kill-process 2; if read x < a.env; then echo $x; else echo closed; fi; true");
    EXPECT_EQ(said, as_root() ? "EPERM\nclosed\n" : "ok\nclosed\n");
}

TEST_F(patterns, many_at_once) { EXPECT_EQ(attempt("/probe many-opens open 1000 16"), "16000\n"); }

TEST_F(patterns, pipes_with_names)
{
    EXPECT_EQ(attempt("mkfifo f g; cat f > got & cat g > f & echo through > g; wait; cat got; "
                      "/probe interrupted-open f; /probe many-opens open 10 2; rm f g got"),
              "through\nEINTR\n20\n");
    EXPECT_EQ(attempt("mkfifo f; for i in 1 2 3; do timeout 0.1 cat f; done; cat open; rm f"), "mine\n");
}

TEST_F(patterns, ordinary_use)
{
    EXPECT_EQ(attempt("umask 027; mkdir -p x/y; echo 1 > x/y/z; stat -c %a x/y x/y/z; cp -a x w; mv w/y/z "
                      "w/z; cat w/z; "
                      "touch -d 2001-01-01 w/z; stat -c %Y w/z | cut -c1-5; ln w/z w/l; rm -r x w; mktemp -d "
                      "| xargs rmdir; bash -c 'cat <(echo bash)'; find . -name '*.env' | sort; "
                      "tar cf - open | tar tf -; ls / > /dev/null; echo done > /dev/stdout"),
              "750\n640\n1\n97830\nbash\n./a.env\n./deep/er/b.env\nopen\ndone\n");
}

TEST_F(patterns, ordinary_programs)
{
    EXPECT_EQ(attempt("export HOME=$PWD; python3 -c 'import json, os; open(\"p\", \"w\").write(\"py\"); "
                      "os.rename(\"p\", \"q\"); print(open(\"q\").read()); os.remove(\"q\")'"),
              "py\n");
    EXPECT_EQ(attempt("command -v git > /dev/null || { echo one; exit 0; }; export HOME=$(mktemp -d); cd "
                      "$HOME; git init -q; "
                      "git config user.email a@b.c; git config user.name a; echo 1 > f; git add f; "
                      "git commit -qm one; git log --format=%s"),
              "one\n");
    EXPECT_EQ(
        attempt("command -v cc > /dev/null || { echo built; exit 0; }; "
                "echo 'int main(void) { return 0; }' > t.c; cc t.c -o t && ./t && echo built; rm -f t t.c"),
        "built\n");
}

TEST_F(patterns, alone_or_beside_what_they_cannot_hold_in)
{
    policy_.file("p.json", R"({"files": [{"deny": "**/*.env"}]})");
    EXPECT_THAT(inside("true", options()).err, HasSubstr("no other file rule"));
    policy_.file(
        "p.json",
        R"({"extends": "workspace-write", "files": [{"deny": "**/*.env"}], "nested_namespaces": true})");
    EXPECT_THAT(inside("true", options()).err, HasSubstr("nested namespaces"));
    policy_.file("p.json", R"({"extends": "workspace-write", "files": [{"read": "**/*.env"}]})");
    EXPECT_THAT(inside("true", options()).err, HasSubstr("read **/*.env"));
}

TEST_F(patterns, without_notifications_they_are_refused)
{
    Around around;
    around.program = hooks_program();
    around.env["BERTH_TEST_LACK"] = "notification";
    EXPECT_THAT(inside("true", options(), around).err, HasSubstr("*.env"));
    EXPECT_NE(inside("true", options(), around).code, 0);
}

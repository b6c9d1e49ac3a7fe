// Deny patterns: what they name cannot be read, changed, moved or executed, also when it is made later, by
// whatever way; and what they do not name can. All of it twice: held for a sandbox, and for one command of a
// sandbox that has no rules itself.

#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include <gmock/gmock.h>

#include "base/unique_fd.hpp"
#include "sandbox.hpp"

using namespace security;
using ::testing::HasSubstr;
using ::testing::Not;

namespace {

enum class Held { Sandbox, Command };

class patterns : public ::testing::TestWithParam<Held> {
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
        if (!of_command()) return;
        const auto made = run({"--workspace", tree_.path(), "--mount", place() + "/probe:/probe:ro"}, {},
                              {.verb = "create"});
        box_ = made.out.substr(0, made.out.find('\n'));
        ASSERT_THAT(box_, HasSubstr("sbx_")) << made.err;
    }
    void TearDown() override
    {
        if (!box_.empty()) EXPECT_EQ(run({box_}, {}, {.verb = "rm"}).code, 0);
    }
    [[nodiscard]] static bool of_command() { return GetParam() == Held::Command; }
    [[nodiscard]] Words options(const Words& more = {}) const
    {
        Words all = of_command() ? Words{} : Words{"--workspace", tree_.path()};
        all.insert(all.end(), {"--policy", policy_.at("p.json")});
        all.insert(all.end(), more.begin(), more.end());
        if (of_command()) all.push_back(box_);
        return all;
    }
    [[nodiscard]] static Around around()
    {
        Around out;
        if (of_command()) out.verb = "exec";
        return out;
    }
    /// What it prints; whatever it does, nothing of what is denied gets out or is changed.
    [[nodiscard]] std::string attempt(const std::string& script, const Words& more = {}) const
    {
        const auto outcome = inside(script, options(more), around());
        EXPECT_THAT(outcome.out + outcome.err, Not(HasSubstr("the secret")));
        for (const char* name : {"a.env", "deep/er/b.env", "private/key"})
            EXPECT_EQ(tree_.read(name), "the secret\n") << name;
        EXPECT_EQ(outcome.code, 0) << outcome.err;
        return outcome.out;
    }
    /// In a script, the number of the supervisor: it is cloned last before the command.
    [[nodiscard]] static std::string supervisor() { return of_command() ? "$(($$ - 1))" : "2"; }
    /// A program that says "leaked", under a name that is denied.
    void put_program(const std::string& name) const
    {
        std::filesystem::copy_file(place() + "/probe", tree_.at(name));
        if (as_root()) EXPECT_EQ(::chown(tree_.at(name).c_str(), 12345, 12345), 0);
    }
    TempTree tree_;
    TempTree policy_;
    std::string box_;
};

/// Of a process of ours, as the host numbers it.
pid_t parent_of(pid_t pid)
{
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string word;
    pid_t parent = 0;
    stat >> word >> word >> word >> parent;
    return parent;
}

/// The supervisor beside a script that has `mark` in it; 0: there is none.
pid_t supervisor_of(const std::string& mark)
{
    std::set<pid_t> parents; // also of what it has just forked and not executed yet
    for (const pid_t pid : processes_named("sh")) {
        std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline");
        const std::string words{std::istreambuf_iterator<char>(file), {}};
        if (words.find(mark) != std::string::npos) parents.insert(parent_of(pid));
    }
    parents.erase(0); // of one that ended meanwhile
    for (const pid_t pid : processes_named("berth-supervisor"))
        if (parents.contains(parent_of(pid))) return pid;
    return 0;
}

} // namespace

INSTANTIATE_TEST_SUITE_P(, patterns, ::testing::Values(Held::Sandbox, Held::Command), [](const auto& info) {
    return info.param == Held::Sandbox ? "sandbox" : "command";
});

TEST_P(patterns, read_by_path)
{
    const std::string all = "for f in a.env ./deep/er/b.env deep/../a.env private/key $PWD/a.env; do "
                            "/probe open-read $f; done; cat open deep/open";
    const std::string refused = "EACCES\nEACCES\nEACCES\nEACCES\nEACCES\nmine\nmine\n";
    EXPECT_EQ(attempt(all), refused);
    EXPECT_EQ(attempt(all, mightiest()), refused);
}

TEST_P(patterns, change_by_path)
{
    // A workspace is one user's, and of a kept sandbox that is the sandbox's.
    EXPECT_EQ(attempt("for p in open-write truncate chmod touch unlink; do /probe $p a.env; done; "
                      "/probe create c.env; /probe mkdir d.env; /probe symlink open e.env; "
                      "/probe nameless . f.env; ls -d *.env",
                      of_command() ? Words{} : mightiest()),
              "EACCES\nEACCES\nEACCES\nEACCES\nEACCES\nEACCES\nEACCES\nEACCES\nEACCES\na.env\n");
}

TEST_P(patterns, read_what_is_made_later)
{
    Running running(options(),
                    "echo ready; until [ -e later.env ]; do :; done; /probe open-read later.env; "
                    "/probe open-read deep/new/later.env; cat open",
                    around());
    EXPECT_EQ(running.line(), "ready");
    tree_.file("deep/new/later.env", "the secret\n");
    tree_.file("later.env", "the secret\n");
    EXPECT_EQ(running.line(), "EACCES");
    EXPECT_EQ(running.line(), "EACCES");
    EXPECT_EQ(running.line(), "mine");
}

TEST_P(patterns, read_by_proc)
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

TEST_P(patterns, read_by_symlink)
{
    EXPECT_EQ(
        attempt("ln -s a.env t; ln -s private p; ln -s ../a.env deep/u; /probe open-read t; "
                "/probe open-read p/key; /probe open-read deep/u; ln -s open o; cat o; rm t p deep/u o"),
        "EACCES\nEACCES\nEACCES\nmine\n");
}

TEST_P(patterns, link_to_it)
{
    EXPECT_EQ(attempt("/probe link a.env t; /probe link private/key k; /probe link open o.env; "
                      "/probe link open o; cat o; rm o"),
              "EACCES\nEACCES\nEACCES\nok\nmine\n");
}

TEST_P(patterns, move_it)
{
    EXPECT_EQ(attempt("/probe rename a.env t; /probe rename open o.env; /probe exchange open a.env; "
                      "/probe rename private/key k; /probe rename open o; /probe rename o open"),
              "EACCES\nEACCES\nEACCES\nEACCES\nok\nok\n");
}

TEST_P(patterns, move_a_directory_above_it)
{
    // Within what the pattern covers a directory may be moved, out of it not; a program that moves then
    // copies.
    EXPECT_EQ(
        attempt("/probe rename private moved; /probe exchange private deep; /probe rename deep /tmp/deep; "
                "/probe rename deep depth; /probe open-read depth/er/b.env; /probe rename depth deep"),
        "EXDEV\nEXDEV\nEXDEV\nok\nEACCES\nok\n");
}

TEST_P(patterns, reopen_a_descriptor_for_the_path)
{
    EXPECT_EQ(attempt("/probe path-descriptor a.env"),
              "open EACCES\nwrite EACCES\nopenat ENOENT\nlink EACCES\nlink-empty ENOENT\ntruncate EACCES\n"
              "chmod EACCES\nexec EACCES\n");
}

TEST_P(patterns, read_relative_to_a_directory)
{
    EXPECT_EQ(
        attempt("/probe by-dirfd deep/er b.env; /probe by-dirfd deep open; /probe by-fchdir deep/er b.env; "
                "/probe by-fchdir deep open; /probe by-own-thread deep/er b.env; "
                "/probe by-own-thread deep open; cd deep/er; /probe open-read b.env; cat ../open"),
        "EACCES\nread mine\nEACCES\nread mine\nEACCES\nread mine\nEACCES\nmine\n");
}

TEST_P(patterns, ask_by_memory)
{
    // What it is asked stands in memory, which a supervisor could only have looked at.
    EXPECT_EQ(attempt("/probe by-openat2 open"), "ENOSYS\n");
}

TEST_P(patterns, change_the_path_meanwhile)
{
    tree_.file("o.txt", "mine\n");
    EXPECT_EQ(attempt("/probe path-race $PWD/o.txt $PWD/a.env 5000"), "held\n");
    EXPECT_EQ(attempt("/probe path-race $PWD/o.txt $PWD/a.env 2000", mightiest()), "held\n");
}

TEST_P(patterns, swap_a_link_meanwhile)
{
    EXPECT_EQ(attempt("ln -s open swap; /probe link-race open a.env swap 2000; rm -f swap swap.next"),
              "held\n");
}

TEST_P(patterns, execute_it)
{
    put_program("tool.env");
    put_program("tool");
    EXPECT_EQ(attempt("/probe execute tool.env; ./tool leaked; ln -s tool.env t; /probe execute t; rm t"),
              "EACCES\nleaked\nEACCES\n");
    // As the command itself; and what is not there is told as a shell does.
    EXPECT_EQ(run(options(), {tree_.at("tool.env"), "leaked"}, around()).code, 126);
    EXPECT_EQ(run(options(), {"no-such-program"}, around()).code, 127);
}

TEST_P(patterns, change_what_is_executed_meanwhile)
{
    put_program("tool.env");
    std::filesystem::copy_file("/bin/true", tree_.at("true.bin"));
    EXPECT_EQ(attempt("/probe exec-race $PWD/true.bin $PWD/tool.env 300"), "over\n");
}

TEST_P(patterns, look_into_the_supervisor)
{
    // Anybody else's command line can be read.
    EXPECT_EQ(attempt("s=" + supervisor() +
                      "; for f in cmdline mem maps environ fd root/etc/passwd task/$s/mem; "
                      "do /probe open-read /proc/$s/$f; done | sort -u"),
              "EACCES\n");
}

TEST_P(patterns, end_the_supervisor)
{
    Running running(options(),
                    "echo ready; until [ -e go ]; do sleep 0.02; done; if read x < open; then echo $x; else "
                    "echo closed; fi; if read x < a.env; then echo $x; else echo closed; fi; "
                    "/probe leaked || echo not run; : " +
                        tree_.path(),
                    around());
    EXPECT_EQ(running.line(), "ready");
    const pid_t found = supervisor_of(tree_.path());
    ASSERT_NE(found, 0);
    ASSERT_EQ(::kill(found, SIGKILL), 0);
    tree_.file("go", "");
    EXPECT_EQ(running.line(), "closed");
    EXPECT_EQ(running.line(), "closed");
    EXPECT_EQ(running.line(), "not run");
}

TEST_P(patterns, outlive_the_command)
{
    if (!of_command()) return; // a sandbox's ends with the sandbox
    pid_t found = 0;
    {
        Running running(options(), "echo ready; until [ -e go ]; do sleep 0.02; done; : " + tree_.path(),
                        around());
        EXPECT_EQ(running.line(), "ready");
        found = supervisor_of(tree_.path());
        ASSERT_NE(found, 0);
        tree_.file("go", "");
        EXPECT_EQ(running.wait(), 0);
    }
    const berth::UniqueFd end(static_cast<int>(::syscall(SYS_pidfd_open, found, 0)));
    pollfd ended{.fd = end.get(), .events = POLLIN, .revents = 0};
    EXPECT_TRUE(!end || ::poll(&ended, 1, 10'000) == 1) << "the supervisor lives on";
}

TEST_P(patterns, end_the_supervisor_from_inside)
{
    const auto said = attempt("/probe kill-process " + supervisor() +
                              "; if read x < a.env; then echo $x; else echo closed; fi; true");
    EXPECT_EQ(said, as_root() ? "EPERM\nclosed\n" : "ok\nclosed\n");
}

TEST_P(patterns, many_at_once) { EXPECT_EQ(attempt("/probe many-opens open 1000 16"), "16000\n"); }

TEST_P(patterns, pipes_with_names)
{
    EXPECT_EQ(attempt("mkfifo f g; cat f > got & cat g > f & echo through > g; wait; cat got; "
                      "/probe interrupted-open f; /probe many-opens open 10 2; rm f g got"),
              "through\nEINTR\n20\n");
    EXPECT_EQ(attempt("mkfifo f; for i in 1 2 3; do timeout 0.1 cat f; done; cat open; rm f"), "mine\n");
}

TEST_P(patterns, ordinary_use)
{
    EXPECT_EQ(attempt("umask 027; mkdir -p x/y; echo 1 > x/y/z; stat -c %a x/y x/y/z; cp -a x w; mv w/y/z "
                      "w/z; cat w/z; "
                      "touch -d 2001-01-01 w/z; stat -c %Y w/z | cut -c1-5; ln w/z w/l; rm -r x w; mktemp -d "
                      "| xargs rmdir; bash -c 'cat <(echo bash)'; find . -name '*.env' | sort; "
                      "tar cf - open | tar tf -; ls / > /dev/null; echo done > /dev/stdout"),
              "750\n640\n1\n97830\nbash\n./a.env\n./deep/er/b.env\nopen\ndone\n");
}

TEST_P(patterns, ordinary_programs)
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

TEST_P(patterns, alone_or_beside_what_they_cannot_hold_in)
{
    policy_.file("p.json", R"({"files": [{"deny": "**/*.env"}]})");
    EXPECT_THAT(inside("true", options(), around()).err, HasSubstr("no other file rule"));
    policy_.file(
        "p.json",
        R"({"extends": "workspace-write", "files": [{"deny": "**/*.env"}], "nested_namespaces": true})");
    EXPECT_THAT(inside("true", options(), around()).err, HasSubstr("nested namespaces"));
    policy_.file("p.json", R"({"extends": "workspace-write", "files": [{"read": "**/*.env"}]})");
    EXPECT_THAT(inside("true", options(), around()).err, HasSubstr("**/*.env"));
}

TEST_P(patterns, a_launch_that_is_killed)
{
    if (!of_command()) return; // tests/crash walks those
    for (const char* label : {"entering the sandbox", "putting up the narrower walls",
                              "starting the supervisor of deny patterns", "starting the command"}) {
        Around killed = around();
        killed.program = hooks_program();
        killed.env["BERTH_TEST_KILL"] = label;
        EXPECT_EQ(inside("exit 0", options(), killed).code, 128 + SIGKILL) << label;
    }
    // What was on its way ends by itself, and the sandbox goes on: the next command is the only one.
    EXPECT_EQ(attempt("cat open"), "mine\n");
    std::string left = "berth-supervisor";
    for (int looks = 0; looks < 500 && left.find("berth-supervisor") != std::string::npos; ++looks)
        left =
            run({"--user", as_root() ? "root" : "user", box_},
                {"sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'; true"}, {.verb = "exec"})
                .out;
    EXPECT_THAT(left, Not(HasSubstr("berth-supervisor")));
}

TEST_P(patterns, commands_beside_it_do_not_notice)
{
    if (!of_command()) return;
    Running running(options(), "echo ready; until [ -e go ]; do sleep 0.02; done; /probe open-read a.env",
                    around());
    EXPECT_EQ(running.line(), "ready");
    EXPECT_EQ(run({box_}, {"cat", "a.env"}, {.verb = "exec"}).out, "the secret\n");
    // What another one has opened, or lives in, is no way in either.
    Running other({box_}, "exec 5< a.env; echo $$; until [ -e go ]; do sleep 0.02; done", {.verb = "exec"});
    const std::string pid = other.line();
    EXPECT_THAT(attempt("for f in fd/5 root$PWD/a.env cwd/a.env; do /probe open-read /proc/" + pid +
                            "/$f; done | sort -u",
                        mightiest()),
                ::testing::AnyOf("EACCES\n", "ENOENT\n", "EACCES\nENOENT\n"));
    tree_.file("go", "");
    EXPECT_EQ(running.line(), "EACCES");
}

TEST_P(patterns, beside_those_of_the_sandbox)
{
    if (!of_command()) return;
    const auto made = run({"--workspace", tree_.path(), "--mount", place() + "/probe:/probe:ro", "--policy",
                           policy_.at("p.json")},
                          {}, {.verb = "create"});
    const std::string box = made.out.substr(0, made.out.find('\n'));
    const auto with = [&](const char* name, const std::string& script) {
        return run({"--policy", policy_.at(name), box}, {"sh", "-c", script}, {.verb = "exec"});
    };
    std::string more = policy_.read("p.json");
    policy_.file("more.json",
                 more.replace(more.rfind("]"), 1, R"(, {"deny": ")" + tree_.path() + R"(/op*"}])"));
    policy_.file("less.json", R"({"extends": "workspace-write"})");
    EXPECT_EQ(with("more.json", "/probe open-read open; /probe open-read a.env; cat deep/open").out,
              "EACCES\nEACCES\nmine\n");
    EXPECT_EQ(with("p.json", "/probe open-read a.env; cat open").out, "EACCES\nmine\n");
    EXPECT_THAT(with("less.json", "cat a.env").err, HasSubstr("wider"));
    EXPECT_EQ(run({box}, {}, {.verb = "rm"}).code, 0);
}

TEST_P(patterns, without_notifications_they_are_refused)
{
    Around without = around();
    without.program = hooks_program();
    without.env["BERTH_TEST_LACK"] = "notification";
    EXPECT_THAT(inside("true", options(), without).err, HasSubstr(of_command() ? "notify" : "*.env"));
    EXPECT_NE(inside("true", options(), without).code, 0);
}

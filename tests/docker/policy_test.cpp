// Policies on docker, of whole sandboxes and of single commands: what is forbidden does not work, and what
// stands beside it does.

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/ids.hpp"
#include "docker/docker_fixture.hpp"

namespace berth {
namespace {

using policy::Access;
using testing::HasSubstr;

policy::FileRule rule(Access access, const std::string& path)
{
    return {.access = access, .target = policy::Path{path}};
}

/// Reads everything, writes nothing, has no limits of its own.
policy::Policy reading()
{
    auto out = *policy::preset("read-only");
    out.limits = {};
    return out;
}

class DockerPolicy : public Docker {
protected:
    struct Ran {
        std::string output;
        int code = -1;
    };
    Result<Ran> run(const std::string& ref, ExecSpec exec)
    {
        exec.timeout = 120s;
        Ran out;
        RunStreams streams;
        // Of the two streams no order is promised.
        streams.on_event = [&](const ExecEvent& event) {
            if (event.kind != ExecEvent::Kind::Stderr) out.output += event.bytes;
        };
        const auto outcome = berth_->run(berth_->exec(ref, std::move(exec), std::move(streams)));
        if (!outcome) return std::unexpected(outcome.error());
        out.code = outcome->status.code().value_or(-1);
        return out;
    }
    static ExecSpec narrow(const std::string& script, policy::Policy policy, const std::string& user = {})
    {
        ExecSpec exec;
        exec.argv = {"sh", "-c", script};
        exec.user = user;
        exec.policy = std::move(policy);
        return exec;
    }
    std::string told(const std::string& ref, ExecSpec exec)
    {
        const auto ran = run(ref, std::move(exec));
        EXPECT_TRUE(ran) << ran.error().line();
        return ran ? ran->output : std::string{};
    }
};

TEST_F(DockerPolicy, ANarrowerCommandWritesWhereItMayAndNowhereElse)
{
    made();
    auto policy = reading();
    policy.files.push_back(rule(Access::Write, "/home/user/out"));
    shell("demo", "mkdir ~/out");
    const std::string script = "echo x > ~/out/a && echo wrote; echo x > ~/b || echo kept; id -un";
    EXPECT_EQ(told("demo", narrow(script, policy)), "wrote\nkept\nuser\n");
    EXPECT_THAT(told("demo", narrow("echo x > /home/user/out/r && echo wrote; echo x > /etc/r || echo kept",
                                    policy, "root")),
                "wrote\nkept\n");
    EXPECT_EQ(shell("demo", "cat ~/out/a; echo x > ~/b && echo wider"), "x\nwider\n");
}

TEST_F(DockerPolicy, WhatANarrowerCommandIsDeniedItDoesNotRead)
{
    made();
    shell("demo", "echo hidden > ~/secret; echo plain > ~/open; mkdir ~/dir; echo in > ~/dir/f");
    auto policy = reading();
    policy.files.push_back(rule(Access::Deny, "/home/user/secret"));
    policy.files.push_back(rule(Access::Deny, "/home/user/dir"));
    EXPECT_EQ(told("demo", narrow("cat ~/secret 2>/dev/null; ls ~/dir 2>/dev/null; cat ~/open", policy)),
              "plain\n");
    EXPECT_EQ(
        told("demo", narrow("ls -A /home/user/dir; cat /home/user/secret /home/user/open", policy, "root")),
        "plain\n")
        << "root finds an empty file and an empty directory in their place";
    EXPECT_EQ(shell("demo", "cat ~/secret ~/dir/f"), "hidden\nin\n");
}

TEST_F(DockerPolicy, ANarrowerCommandCannotReachAWiderOne)
{
    made();
    ExecSpec sleeper;
    sleeper.id = make_exec_id(system_clock());
    sleeper.argv = {"sleep", "1000"};
    const auto record = *berth_->run(berth_->lifecycle().find("demo"));
    ASSERT_TRUE(berth_->run(berth_->lifecycle().exec(record, sleeper)));
    const std::string find = "for p in /proc/[0-9]*; do case $(tr '\\0' ' ' < $p/cmdline 2>/dev/null) in "
                             "'sleep 1000 ') echo ${p#/proc/};; "
                             "esac; done";
    const std::string pid = shell("demo", find);
    ASSERT_FALSE(pid.empty());
    const std::string number = pid.substr(0, pid.size() - 1);
    const std::string look =
        "ls /proc/" + number + "/root/ >/dev/null 2>&1 && echo looked || echo not; echo on";
    EXPECT_EQ(shell("demo", look), "looked\non\n");
    EXPECT_EQ(told("demo", narrow(look, reading())), "not\non\n");
    const std::string kill = "kill -9 " + number + " 2>/dev/null && echo killed || echo not";
    EXPECT_EQ(told("demo", narrow(kill, reading())), "not\n");
    EXPECT_EQ(shell("demo", kill), "killed\n");
}

TEST_F(DockerPolicy, ANarrowerCommandCanHaveNoNetwork)
{
    auto request = wish("net");
    request.spec.policy.network = policy::Network::Host;
    ASSERT_TRUE(acquire(request));
    const std::string links =
        "python3 -c 'import socket; print(sorted(n for _, n in socket.if_nameindex()))'";
    const std::string dial = "python3 -c 'import socket; s = socket.socket(); s.bind((\"127.0.0.1\", 0)); "
                             "s.listen(); socket.create_connection(s.getsockname()); print(\"own\")'";
    EXPECT_EQ(told("net", narrow(links + "; " + dial,
                                 [] {
                                     auto policy = reading();
                                     policy.network = policy::Network::Off;
                                     return policy;
                                 }())),
              "['lo']\nown\n");
    const auto host = command("readlink /proc/self/ns/net");
    auto same = reading();
    same.network = policy::Network::Host;
    EXPECT_EQ(told("net", narrow("readlink /proc/self/ns/net", same)), host + "\n");
}

TEST_F(DockerPolicy, ANarrowerCommandHasFewerFilesAndProcesses)
{
    made();
    auto policy = reading();
    policy.limits.open_files = 64;
    policy.limits.pids = 50; // the kernel counts those of every container with the same user
    EXPECT_EQ(
        told("demo",
             narrow("ulimit -n; ulimit -u 2>/dev/null || cut -c1-40 /proc/self/limits | grep -c .", policy))
            .substr(0, 3),
        "64\n");
    EXPECT_THAT(told("demo", narrow("grep -E 'Max (processes|open)' /proc/self/limits", policy)),
                testing::ContainsRegex("Max processes +50 +50"));
    EXPECT_THAT(shell("demo", "grep -E 'Max open' /proc/self/limits"), testing::Not(HasSubstr(" 64 ")));
    policy = reading();
    policy.limits.memory = 16_MiB;
    const auto refused = run("demo", narrow("true", policy));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Unsupported) << refused.error().line();
    EXPECT_THAT(refused.error().line(), HasSubstr("memory"));
}

TEST_F(DockerPolicy, ANarrowerCommandMayAskLittleOfTheKernel)
{
    made();
    const std::string ask =
        "import ctypes, os\n"
        "c = ctypes.CDLL(None, use_errno=True)\n"
        "def said(r): return 'yes' if r >= 0 else os.strerror(ctypes.get_errno())\n"
        "print(said(c.unshare(0x10000000)), '/', said(c.mount(b'x', b'/tmp', b'tmpfs', 0, b'')), '/', "
        "said(c.syscall(39)))\n";
    ExecSpec exec;
    exec.argv = {"python3", "-c", ask};
    exec.user = "root";
    exec.policy = reading();
    EXPECT_EQ(told("demo", exec), "Operation not permitted / Operation not permitted / yes\n");
    EXPECT_EQ(told("demo", narrow("grep -E '^(CapBnd|NoNewPrivs)' /proc/self/status", reading(), "root")),
              "CapBnd:\t00000000000004fb\nNoNewPrivs:\t1\n");
}

TEST_F(DockerPolicy, AWiderCommandIsRefusedAndANarrowerOneHasATerminal)
{
    auto request = wish("strict");
    request.spec.policy = reading();
    ASSERT_TRUE(acquire(request));
    auto wide = *policy::preset("full-access");
    wide.limits = {};
    const auto refused = run("strict", narrow("true", wide));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Denied) << refused.error().line();
    auto exec = narrow("test -t 0 && stty size && exit 7", reading());
    exec.terminal = TerminalSize{.rows = 11, .columns = 44};
    const auto ran = run("strict", exec);
    ASSERT_TRUE(ran) << ran.error().line();
    EXPECT_EQ(ran->output, "11 44\r\n");
    EXPECT_EQ(ran->code, 7);
}

TEST_F(DockerPolicy, TheTimeoutOfANarrowerCommandKillsItsTree)
{
    made();
    ExecSpec stays;
    stays.id = make_exec_id(system_clock());
    stays.argv = {"sleep", "1003"};
    const auto record = *berth_->run(berth_->lifecycle().find("demo"));
    ASSERT_TRUE(berth_->run(berth_->lifecycle().exec(record, stays)));
    auto exec = narrow("setsid sleep 1001 & sleep 1002", reading());
    exec.timeout = 1s;
    const auto outcome = berth_->run(berth_->exec("demo", std::move(exec), {}));
    ASSERT_TRUE(outcome) << outcome.error().line();
    EXPECT_FALSE(outcome->status.success());
    EXPECT_EQ(shell("demo", "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2>/dev/null; echo; done | "
                            "grep -E '^sleep 100[123]'"),
              "sleep 1003 \n");
}

TEST_F(DockerPolicy, AWorkspaceIsWrittenAndItsProtectedNamesAreNot)
{
    const std::string work = data_ + "-work";
    std::filesystem::create_directories(work + "/.git");
    std::filesystem::create_directories(work + "/sub/.git");
    std::ofstream(work + "/.git/config") << "mine\n";
    for (const char* path : {"", "/.git", "/sub", "/sub/.git", "/.git/config"})
        ASSERT_EQ(::chown((work + path).c_str(), 1000, 1000), 0);
    auto request = wish("work");
    request.spec.policy = *policy::preset("workspace-write");
    request.spec.mounts.push_back(
        {.source = work, .target = work, .mode = Mount::Mode::ReadWrite, .workspace = true});
    const auto acquired = acquire(request);
    ASSERT_TRUE(acquired) << acquired.error().line();
    EXPECT_THAT(
        shell("work",
              "exec 2>/dev/null; pwd; echo a > file && echo wrote; echo x > .git/config || echo kept; "
              "echo x > sub/.git/x || echo kept; mkdir .codex 2>/dev/null; "
              "echo x > .codex/x || echo kept; mv sub other || echo kept; "
              "echo x > /tmp/t && echo tmp; echo x > ~/x || echo home"),
        work + "\nwrote\nkept\nkept\nkept\nkept\ntmp\nhome\n");
    EXPECT_EQ(command("cat " + work + "/file " + work + "/.git/config"), "a\nmine");
    EXPECT_FALSE(std::filesystem::exists(work + "/.codex")) << "the placeholder went with the command";
    // Narrower still: nothing of the workspace.
    EXPECT_EQ(told("work", narrow("cat file; echo b > file || echo kept", reading())), "a\nkept\n");
    std::filesystem::remove_all(work);
}

TEST_F(DockerPolicy, TheEngineItselfHoldsARootOfWhichNothingIsWritten)
{
    auto request = wish("frozen");
    request.spec.policy = reading();
    request.spec.policy.files.push_back(
        {.access = Access::Write, .target = policy::Symbolic{.symbol = policy::Symbol::Tmpdir}});
    const auto acquired = acquire(request);
    ASSERT_TRUE(acquired) << acquired.error().line();
    const auto container = ours();
    EXPECT_EQ(command("docker inspect -f '{{.HostConfig.ReadonlyRootfs}}' " + container), "true");
    // Also for whoever comes in without us.
    EXPECT_EQ(command("docker exec " + container +
                      " sh -c 'echo x 2>/dev/null > /root/x || echo kept; echo x > /tmp/x && cat /tmp/x'"),
              "kept\nx");
    EXPECT_EQ(shell("frozen",
                    "exec 2>/dev/null; echo y > /var/tmp/y && cat /var/tmp/y; echo x > ~/x || echo kept; "
                    "wc -c < /etc/machine-id"),
              "y\nkept\n33\n");
    request = wish("partly");
    request.spec.policy = reading();
    request.spec.policy.files.push_back(rule(Access::Write, "/home/user"));
    ASSERT_TRUE(acquire(request));
    EXPECT_EQ(command("docker inspect -f '{{.HostConfig.ReadonlyRootfs}}' $(docker ps -q --filter "
                      "label=berth.sandbox.key=partly)"),
              "false")
        << "an engine knows one rule for the whole root";
    EXPECT_EQ(shell("partly", "exec 2>/dev/null; echo x > ~/x && echo wrote; echo x > /tmp/x || echo kept"),
              "wrote\nkept\n");
}

TEST_F(DockerPolicy, RulesOfASandboxHoldAfterItsRestart)
{
    auto request = wish("rules");
    request.spec.policy = reading();
    request.spec.policy.files.push_back(rule(Access::Write, "/home/user"));
    request.spec.policy.files.push_back(rule(Access::Deny, "/etc/group"));
    ASSERT_TRUE(acquire(request));
    const std::string script =
        "exec 2>/dev/null; echo x > ~/a && echo wrote; echo x > /var/x || echo kept; cat /etc/group "
        "2>/dev/null | wc -c; head -c4 /etc/passwd";
    const auto want = std::string("wrote\nkept\n0\nroot");
    EXPECT_EQ(shell("rules", script), want);
    ASSERT_TRUE(berth_->run(berth_->lifecycle().stop("rules", 1s)));
    ASSERT_TRUE(berth_->run(berth_->lifecycle().use("rules")));
    EXPECT_EQ(shell("rules", script), want);
}

TEST_F(DockerPolicy, OfAContainerOfSomebodyElseACommandCannotBeNarrowed)
{
    made("warm-up"); // the image
    const auto image = command("docker inspect -f '{{.Image}}' " + ours());
    const auto theirs = command("docker run -d --net none --entrypoint sleep " + image + " 1000");
    const auto attached = berth_->run(berth_->lifecycle().attach("docker", theirs, "theirs"));
    ASSERT_TRUE(attached) << attached.error().line();
    EXPECT_EQ(shell(attached->record.id(), "echo here", "root"), "here\n");
    const auto refused = run(attached->record.id(), narrow("true", reading(), "root"));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::Unsupported) << refused.error().line();
    EXPECT_THAT(refused.error().line(), HasSubstr("made by somebody else"));
    ASSERT_TRUE(berth_->run(berth_->lifecycle().detach(attached->record.id())));
    command("docker rm -f " + theirs);
}

} // namespace
} // namespace berth

// Processes outside, and pid 1.

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include <gmock/gmock.h>

#include "sandbox.hpp"

using namespace security;

namespace {

/// A process of the host, of the same user, that does nothing.
class Bystander {
public:
    Bystander() : pid_(::fork())
    {
        if (pid_ == 0)
            for (;;) ::pause();
    }
    Bystander(const Bystander&) = delete;
    Bystander& operator=(const Bystander&) = delete;
    ~Bystander()
    {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    [[nodiscard]] std::string pid() const { return std::to_string(pid_); }
    [[nodiscard]] bool lives() const { return ::waitpid(pid_, nullptr, WNOHANG) == 0; }

private:
    pid_t pid_;
};

/// Waits for something that another process brings about; a bound, not a guess.
bool eventually(const std::function<bool()>& holds)
{
    for (int i = 0; i < 6000; ++i, ::usleep(10'000))
        if (holds()) return true;
    return false;
}

} // namespace

TEST(processes, see_processes_of_the_host)
{
    const auto seen = answer("ls -d /proc/[0-9]* | wc -l", mightiest());
    EXPECT_LT(std::stoi(seen), 8) << "pid 1, the shell and its pipeline";
    EXPECT_EQ(answer("sleep 60 & kill -0 $! && echo seen; kill $!"), "seen\n");
}

TEST(processes, signal_process_of_the_host_by_number)
{
    const Bystander bystander;
    EXPECT_EQ(
        answer("/probe kill " + bystander.pid() + " 9; /probe kill " + bystander.pid() + " 0", mightiest()),
        "ESRCH\nESRCH\n");
    EXPECT_TRUE(bystander.lives());
}

TEST(processes, signal_everybody)
{
    const Bystander bystander;
    const auto attempt = inside("sleep 60 & kill -9 -1; wait; echo after", mightiest());
    EXPECT_TRUE(bystander.lives());
    EXPECT_TRUE(attempt.code == 0 || attempt.code == 137) << attempt.code << attempt.err;
}

TEST(processes, trace_process_of_the_host)
{
    const Bystander bystander;
    EXPECT_EQ(answer("/probe attach " + bystander.pid() + "; /probe take-descriptor " + bystander.pid() +
                         " 0; /probe open-read /proc/" + bystander.pid() + "/mem; /probe debug-child",
                     mightiest()),
              "ESRCH\nESRCH\nENOENT\nok\n");
}

TEST(processes, read_memory_of_others)
{
    EXPECT_EQ(answer("/probe read-memory 1; /probe read-memory $$; /probe debug-child", mightiest()),
              "EPERM\nEPERM\nok\n");
}

TEST(processes, compare_with_pid_1)
{
    EXPECT_EQ(answer("/probe compare 1; /probe compare $$", mightiest()), "EPERM\nEPERM\n");
}

TEST(processes, trace_pid_1)
{
    EXPECT_EQ(answer("/probe attach 1; /probe debug-child", mightiest()), "EPERM\nok\n");
}

TEST(processes, take_descriptor_of_pid_1)
{
    EXPECT_EQ(answer("for n in 0 1 2 3 4; do /probe take-descriptor 1 $n; done | sort -u", mightiest()),
              "EPERM\n");
}

TEST(processes, read_pid_1)
{
    EXPECT_EQ(answer("for f in environ mem maps auxv stack exe fd/3 fd/4; do cat /proc/1/$f 2>/dev/null; "
                     "done | wc -c; "
                     "for f in exe root cwd fd/3 fd/4 ns/mnt; do readlink /proc/1/$f; done | wc -c",
                     mightiest()),
              "0\n0\n");
    EXPECT_EQ(answer("/probe open-read /proc/self/environ; /probe open-read /proc/self/maps"), "ok\nok\n");
}

TEST(processes, overwrite_program_of_pid_1)
{
    const auto attempt = answer("/probe open-write /proc/1/exe; /probe open-write /proc/1/mem", mightiest());
    EXPECT_TRUE(attempt == "EACCES\nEACCES\n" || attempt == "ENOENT\nENOENT\n") << attempt;
}

TEST(processes, kill_pid_1)
{
    EXPECT_EQ(
        answer(
            "/probe kill 1 9 >/dev/null; /probe kill 1 19 >/dev/null; echo alive; (sleep 0.05 &); sleep 0.1; "
            "echo reaped",
            mightiest()),
        "alive\nreaped\n");
}

TEST(processes, terminate_pid_1)
{
    // It passes signals on to the command; who may signal it ends itself, and that is told as it was.
    const auto attempt = inside("/probe kill 1 15 >/dev/null; sleep 5 & wait; echo alive", mightiest());
    EXPECT_TRUE(attempt.code == 143 || attempt.out == "alive\n") << attempt.code;
    EXPECT_EQ(inside("kill -TERM $$; sleep 5").code, 143);
}

TEST(processes, claim_another_exit_code)
{
    EXPECT_EQ(inside("exit 7").code, 7);
    EXPECT_EQ(inside("(sleep 0.01; exit 3) & exec sh -c 'exit 9'").code, 9);
    EXPECT_EQ(inside("kill -KILL $$").code, 137);
}

TEST(processes, outlive_the_command)
{
    const std::string name = "berth-daemon-" + std::to_string(::getpid());
    EXPECT_EQ(answer("/probe daemon " + name + "; echo done"), "ok\ndone\n");
    EXPECT_TRUE(eventually([&] { return processes_named(name).empty(); }));
}

TEST(processes, outlive_killed_berth)
{
    const std::string name = "berth-orphan-" + std::to_string(::getpid());
    Running sandbox({}, "/probe daemon " + name + "; read line");
    ASSERT_EQ(sandbox.line(), "ok");
    ASSERT_TRUE(eventually([&] { return processes_named(name).size() == 1; }));
    sandbox.signal(SIGKILL);
    EXPECT_EQ(sandbox.wait(), 137);
    EXPECT_TRUE(eventually([&] { return processes_named(name).empty(); }));
}

TEST(processes, outlive_timeout)
{
    const std::string name = "berth-late-" + std::to_string(::getpid());
    const auto attempt =
        inside("trap '' TERM HUP INT; /probe daemon " + name + "; sleep 60", {"--timeout", "1s"});
    EXPECT_EQ(attempt.code, 124);
    EXPECT_TRUE(eventually([&] { return processes_named(name).empty(); }));
}

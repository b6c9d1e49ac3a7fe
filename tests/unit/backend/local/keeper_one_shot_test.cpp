#include <poll.h>
#include <sys/wait.h>

#include "keeper_process.hpp"

namespace berth::local::test {
namespace {

using keeper::Report;
using keeper::ReportKind;

/// A command under a one-shot init, its output in a pipe.
class OneShot {
public:
    explicit OneShot(std::vector<std::string> command, std::uint64_t flags = keeper::kOneShotNewSession,
                     const std::string& cwd = "/")
        : OneShot(make(), std::move(command), flags, cwd)
    {
    }

    Report report(UniqueFd* descriptor = nullptr)
    {
        auto message = must(sys::receive_message(launcher_.get(), Bytes{sizeof(Report)}, 1));
        if (message.bytes.size() != sizeof(Report)) throw std::runtime_error("init said nothing");
        if (descriptor != nullptr && !message.fds.empty()) *descriptor = std::move(message.fds.front());
        return keeper::load<Report>(message.bytes.data());
    }
    std::string output()
    {
        std::string text;
        char buffer[4096];
        for (ssize_t n; (n = ::read(out_.get(), buffer, sizeof buffer)) > 0;)
            text.append(buffer, static_cast<std::size_t>(n));
        return text;
    }
    std::string line()
    {
        std::string text;
        for (char c; ::read(out_.get(), &c, 1) == 1 && c != '\n';) text.push_back(c);
        return text;
    }
    int exit_code() { return must(init.wait()).shell_code(); }

private:
    struct Ends {
        UniqueFd out_read, out_write, ours, theirs;
    };
    static Ends make()
    {
        int pipe[2];
        if (::pipe2(pipe, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
        auto [ours, theirs] = must(sys::socket_pair(sys::SocketKind::SeqPacket));
        must(sys::set_receive_timeout(ours.get(), 10s));
        return {UniqueFd(pipe[0]), UniqueFd(pipe[1]), std::move(ours), std::move(theirs)};
    }
    static std::vector<std::string> words(std::vector<std::string> command, std::uint64_t flags,
                                          std::string cwd)
    {
        std::vector<std::string> all{"o", std::to_string(flags), std::to_string(::getuid()),
                                     std::to_string(::getgid()), std::move(cwd)};
        all.insert(all.end(), command.begin(), command.end());
        return all;
    }
    OneShot(Ends ends, std::vector<std::string> command, std::uint64_t flags, const std::string& cwd)
        : init(start_keeper(words(std::move(command), flags, cwd), ends.theirs.get(), {"PATH=/usr/bin:/bin"},
                            {0, ends.out_write.get(), ends.out_write.get()})),
          launcher_(std::move(ends.ours)), out_(std::move(ends.out_read))
    {
    }

public:
    sys::Child init;

private:
    UniqueFd launcher_, out_;
};

TEST(OneShotInit, TellsTheRawStatusAndExitsTheSame)
{
    OneShot run({"sh", "-c", "echo hello; exit 7"});
    EXPECT_EQ(run.output(), "hello\n");
    const Report report = run.report();
    EXPECT_EQ(report.kind, ReportKind::Ended);
    EXPECT_TRUE(WIFEXITED(report.status));
    EXPECT_EQ(WEXITSTATUS(report.status), 7);
    EXPECT_EQ(run.exit_code(), 7);
}

TEST(OneShotInit, TellsASignal)
{
    OneShot run({"sh", "-c", "kill -SEGV $$"});
    const Report report = run.report();
    EXPECT_TRUE(WIFSIGNALED(report.status));
    EXPECT_EQ(WTERMSIG(report.status), SIGSEGV);
    EXPECT_EQ(run.exit_code(), 128 + SIGSEGV);
}

TEST(OneShotInit, NamesTheStepThatFailed)
{
    OneShot missing({"no-such-program"});
    Report report = missing.report();
    EXPECT_EQ(report.kind, ReportKind::Failed);
    EXPECT_EQ(report.step, keeper::Step::Command);
    EXPECT_EQ(report.error, ENOENT);
    EXPECT_EQ(missing.exit_code(), 127);

    OneShot denied({"/etc/passwd"});
    EXPECT_EQ(denied.report().error, EACCES);
    EXPECT_EQ(denied.exit_code(), 126);

    OneShot nowhere({"true"}, keeper::kOneShotNewSession, "/no/such");
    report = nowhere.report();
    EXPECT_EQ(report.step, keeper::Step::Directory);
    EXPECT_EQ(nowhere.exit_code(), 125);
}

TEST(OneShotInit, ReapsOrphansWhileTheCommandRuns)
{
    // Ten orphans end; their zombies would be children of init for as long as it does not reap.
    OneShot run({"sh", "-c",
                 "for i in 1 2 3 4 5 6 7 8 9 10; do (sh -c : & ); done; i=0; "
                 "while [ $i -lt 200 ]; do n=0; "
                 "for s in /proc/[0-9]*/stat; do read -r p c st pp rest <$s && "
                 "[ \"$st\" = Z ] && [ \"$pp\" = $PPID ] && n=1; done 2>/dev/null; "
                 "[ $n = 0 ] && echo clean && exit 0; i=$((i+1)); sleep 0.02; done; echo zombies"});
    EXPECT_EQ(run.output(), "clean\n");
    EXPECT_EQ(run.exit_code(), 0);
}

TEST(OneShotInit, PassesSignalsToTheGroupOfTheCommand)
{
    OneShot run({"sh", "-c",
                 "trap 'echo outer; wait; exit 4' TERM; "
                 "(trap 'echo inner; exit' TERM; echo ready; while :; do sleep 0.01; done) & wait"});
    EXPECT_EQ(run.line(), "ready");
    must(run.init.signal(SIGTERM));
    EXPECT_EQ(WEXITSTATUS(run.report().status), 4);
    EXPECT_EQ(run.exit_code(), 4);
    const std::string output = run.output();
    EXPECT_NE(output.find("outer"), std::string::npos);
    EXPECT_NE(output.find("inner"), std::string::npos);
}

TEST(OneShotInit, PassesSignalsToTheCommandAloneWhenItSharesTheSession)
{
    OneShot run({"sh", "-c", "trap 'echo usr1; exit 3' USR1; echo ready; while :; do sleep 0.01; done"}, 0);
    EXPECT_EQ(run.line(), "ready");
    must(run.init.signal(SIGUSR1));
    EXPECT_EQ(WEXITSTATUS(run.report().status), 3);
}

TEST(OneShotInit, HidesItsOwnDescriptorsFromTheCommand)
{
    OneShot run(
        {"sh", "-c", "for i in 0 1 2 3 4 5 6 7 8 9 100 101 102; do test -e /proc/$$/fd/$i && echo $i; done"});
    EXPECT_EQ(run.output(), "0\n1\n2\n");
}

TEST(OneShotInit, LetsTheLauncherSeeTheEndOfAStreamTheCommandCloses)
{
    OneShot run({"sh", "-c", "exec >&- 2>&-; exec sleep 1000"});
    EXPECT_EQ(run.output(), "") << "init must not hold the write end";
    must(run.init.signal(SIGTERM));
    EXPECT_EQ(WTERMSIG(run.report().status), SIGTERM);
}

TEST(OneShotInit, GivesTheCommandATerminalAndTheLauncherItsMaster)
{
    OneShot run(
        {"sh", "-c", "stty size; test -t 0 && test -t 2 && echo </dev/tty >/dev/tty; sleep 0.01; exit 2"},
        keeper::one_shot_word(keeper::kOneShotTerminal, 12, 34));
    UniqueFd master;
    const Report report = run.report(&master);
    if (report.kind == ReportKind::Failed)
        GTEST_SKIP() << "no pty here (errno " << report.error << "): mount -t devpts devpts /dev/pts";
    ASSERT_EQ(report.kind, ReportKind::Terminal);
    ASSERT_TRUE(master);
    ASSERT_EQ(::write(master.get(), "x\n", 2), 2);
    std::string text;
    char buffer[256];
    for (ssize_t n; (n = ::read(master.get(), buffer, sizeof buffer)) > 0;)
        text.append(buffer, static_cast<std::size_t>(n));
    EXPECT_NE(text.find("12 34\r\n"), std::string::npos) << text;
    EXPECT_EQ(WEXITSTATUS(run.report().status), 2);
}

} // namespace
} // namespace berth::local::test

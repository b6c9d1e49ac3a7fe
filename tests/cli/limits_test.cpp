// Each limit strikes where it should, is told, and the machine outside does not notice.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "cli/box.hpp"
#include "cli/place.hpp"
#include "cli/program.hpp"

namespace berth::test {
namespace {

using testing::HasSubstr;

/// Whether this machine can hold the limit for us; if not, the refusal is what is tested.
bool held(const char* name)
{
    const auto doctor = berth({"doctor", "--json"});
    const auto at = doctor.out.find(std::string("\"name\":\"") + name + "\"");
    return at != std::string::npos &&
           doctor.out.compare(doctor.out.find("\"verdict\":\"", at) + 11, 2, "ok") == 0;
}

void expect_refused(const Words& options, const char* what)
{
    const Traces before = traces();
    const auto ended = shell(options, "echo ran");
    EXPECT_EQ(ended.code, 125);
    EXPECT_EQ(ended.out, "");
    EXPECT_THAT(ended.err, HasSubstr("cannot be held here"));
    EXPECT_THAT(ended.err, HasSubstr(what));
    expect_same(before);
    Words relaxed = options;
    relaxed.insert(relaxed.end(), {"--limits", "best-effort"});
    const auto best = shell(relaxed, "echo ran");
    EXPECT_EQ(best.out, "ran\n");
    EXPECT_THAT(best.err, HasSubstr("not held"));
}

TEST(Limit, OfMemoryKillsAndIsTold)
{
    if (!held("memory limit")) return expect_refused({"--memory", "64MiB"}, "memory");
    const Traces before = traces();
    const auto ended = shell({"--memory", "64MiB"}, "echo up; head -c 300M /dev/zero | tail");
    EXPECT_EQ(ended.out, "up\n");
    EXPECT_EQ(ended.code, 137);
    EXPECT_THAT(ended.err, HasSubstr("berth: killed: memory limit 64 MiB\n"));
    expect_same(before);
}

TEST(Limit, OfMemoryLeavesASmallCommandAlone)
{
    if (!held("memory limit")) GTEST_SKIP() << "no memory limit for this user: run as root";
    const auto ended = shell({"--memory", "64MiB"}, "echo fine");
    EXPECT_EQ(ended.out, "fine\n");
    EXPECT_EQ(ended.err, "");
}

TEST(Limit, OfProcessesStopsAForkBomb)
{
    const Traces before = traces();
    const auto ended = shell(marked({"--pids", "30", "--timeout", "20s"}),
                             "i=0; while [ $i -lt 60 ]; do sleep 1000 & i=$((i+1)); done; echo not reached");
    EXPECT_THAT(ended.out, testing::Not(HasSubstr("not reached")));
    EXPECT_THAT(ended.err, HasSubstr("fork"));
    if (held("process limit") && is_root()) {
        EXPECT_THAT(ended.err, HasSubstr("berth: refused: process limit 30\n"));
    }
    expect_same(before);
}

TEST(Limit, OfCpusSlowsDown)
{
    if (!held("cpu limit")) return expect_refused({"--cpus", "0.2"}, "cpu");
    const auto ended =
        shell({"--cpus", "0.2"},
              "read a b < /proc/uptime; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; times");
    EXPECT_EQ(ended.code, 0);
    // 0.2 cpus: the wall time is at least three times the processor time that `times` tells.
    double minutes = 0;
    double seconds = 0;
    ASSERT_EQ(std::sscanf(ended.out.c_str(), "%lfm%lfs", &minutes, &seconds), 2) << ended.out;
    EXPECT_GT(static_cast<double>(ended.took.count()) / 1000.0, 3 * (minutes * 60 + seconds) - 0.3);
    EXPECT_THAT(ended.err, HasSubstr("berth: slowed: cpu limit 0.2 (waited "));
}

TEST(Limit, OfDiskEndsInNoSpace)
{
    const auto ended =
        shell({"--disk", "8MiB"}, "head -c 50M /dev/zero > /tmp/big; echo $?; wc -c < /tmp/big; rm /tmp/big; "
                                  "echo small > /tmp/small && cat /tmp/small");
    EXPECT_THAT(ended.err, HasSubstr("No space left on device"));
    EXPECT_TRUE(ended.out.starts_with("1\n")) << ended.out;
    EXPECT_TRUE(ended.out.ends_with("small\n")) << ended.out;
}

TEST(Limit, OfDiskIsToldWhenItIsReached)
{
    const auto ended = shell({"--disk", "8MiB"}, "head -c 50M /dev/zero > /tmp/big");
    EXPECT_THAT(ended.err, HasSubstr("berth: full: disk limit 8 MiB\n"));
    EXPECT_THAT(shell({"--disk", "8MiB"}, "echo small > /tmp/f").err, "");
}

TEST(Limit, IsALineOfJsonToo)
{
    const auto ended = run(
        {.args = {"run", "--json", "--disk", "8MiB", "--", "sh", "-c", "head -c 50M /dev/zero > /tmp/big"}});
    EXPECT_THAT(ended.out, HasSubstr("{\"event\":\"limit\",\"message\":\"full: disk limit 8 MiB\"}\n"));
}

TEST(Limit, OfOpenFilesHoldsForEachProcess)
{
    EXPECT_EQ(shell({"--open-files", "64"}, "ulimit -n; ulimit -Hn").out, "64\n64\n");
    const auto ended =
        shell({"--open-files", "20"}, "exec 3</dev/null 4<&3 5<&3; for i in 6 7 8 9; do eval \"exec $i<&3\"; "
                                      "done; ls /proc/self/fd >/dev/null && echo few");
    EXPECT_EQ(ended.out, "few\n");
}

TEST(Limit, SeveralAtOnceAreTakenTogether)
{
    if (!held("memory limit") || !held("cpu limit"))
        GTEST_SKIP() << "no control groups for this user: run as root";
    const Traces before = traces();
    EXPECT_EQ(shell({"--memory", "128MiB", "--cpus", "1.5", "--pids", "100", "--disk", "32MiB",
                     "--open-files", "100", "--timeout", "30s"},
                    "exit 6")
                  .code,
              6);
    expect_same(before);
}

/// A listener on the host's loopback that answers every connection with one line.
class Listener {
public:
    Listener() : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))
    {
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
        EXPECT_EQ(::bind(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
        EXPECT_EQ(::listen(fd_.get(), 8), 0);
        socklen_t size = sizeof address;
        EXPECT_EQ(::getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
        port_ = ::ntohs(address.sin_port);
        thread_ = std::thread([this] {
            while (true) {
                const UniqueFd peer(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
                if (!peer) return;
                [[maybe_unused]] const auto n = ::write(peer.get(), "hello from the host\n", 20);
            }
        });
    }
    ~Listener()
    {
        ::shutdown(fd_.get(), SHUT_RDWR);
        thread_.join();
    }
    [[nodiscard]] std::string port() const { return std::to_string(port_); }

private:
    UniqueFd fd_;
    int port_ = 0;
    std::thread thread_;
};

std::string dial(const std::string& port) { return "bash -c 'cat < /dev/tcp/127.0.0.1/" + port + "'"; }

TEST(Net, OffIsTheDefaultAndReachesNoListenerOfTheHost)
{
    const Listener listener;
    for (const Words& options : {Words{}, Words{"--net", "off"}}) {
        const auto ended = shell(options, dial(listener.port()) + " || echo unreachable");
        EXPECT_EQ(ended.out, "unreachable\n");
    }
}

TEST(Net, HostReachesAListenerOfTheHost)
{
    const Listener listener;
    const auto ended = shell({"--net", "host"}, dial(listener.port()));
    EXPECT_EQ(ended.out, "hello from the host\n") << ended.err;
}

TEST(Net, OffHasALoopbackOfItsOwn)
{
    const auto ended = shell({}, "cat /proc/net/dev | grep -c :; grep -c ' lo' /proc/net/if_inet6 || true");
    EXPECT_TRUE(ended.out.starts_with("1\n")) << ended.out;
}

TEST(Net, OpenAndAllowAreRefusedByName)
{
    const auto open = berth({"run", "--net", "open", "--", "true"});
    EXPECT_EQ(open.code, 125);
    EXPECT_THAT(open.err, HasSubstr("cannot be held here: network open"));
    EXPECT_EQ(berth({"run", "--net", "allow", "--", "true"}).code, 125);
    EXPECT_EQ(berth({"run", "--net", "wide", "--", "true"}).code, 125);
}

TEST(Limit, OfOneCommandIsHeldOrRefused)
{
    const Box box({"--open-files", "64"});
    const auto with = [&](const std::string& limits, const std::string& script) {
        const auto path = Place::here().file("p.json", R"({"limits": {)" + limits + "}}");
        return box.exec({"--policy", path}, {"sh", "-c", script});
    };
    EXPECT_EQ(with(R"("open_files": 32)", "ulimit -n").out, "32\n");
    EXPECT_EQ(with(R"("open_files": "unlimited")", "ulimit -n").out, "64\n")
        << "the sandbox's holds around it";
    const Box few({"--pids", "32"});
    const auto unlimited = Place::here().file("p.json", R"({"limits": {"pids": "unlimited"}})");
    const auto told =
        few.exec({"--policy", unlimited}, {"awk", "/^Max processes/ {print $3}", "/proc/self/limits"});
    EXPECT_EQ(told.out, "32\n") << told.err << "without a group it is all that holds";
    const auto usual =
        few.exec({"--policy", "read-only"}, {"awk", "/^Max processes/ {print $3}", "/proc/self/limits"});
    EXPECT_EQ(usual.out, "32\n") << usual.err << "a preset's limit is nobody's word";
    const auto more = Place::here().file("p.json", R"({"limits": {"pids": 40}})");
    EXPECT_THAT(few.exec({"--policy", more}, {"true"}).err, HasSubstr("wider"));
    for (const char* one :
         {R"("memory": "32MiB")", R"("cpus": 0.5)", R"("disk": "1MiB")", R"("wall_time": "1s")"}) {
        const auto refused = with(R"("open_files": 64, )" + std::string(one), "echo ran");
        EXPECT_EQ(refused.code, 125) << one;
        EXPECT_EQ(refused.out, "") << one;
        EXPECT_THAT(refused.err, HasSubstr("cannot limit its")) << one;
    }
}

} // namespace
} // namespace berth::test

// Images from a registry of this machine, Debian's own, and a connection to it that breaks.

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "docker/relayed_fixture.hpp"

namespace berth {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class DockerPulls : public Docker {
protected:
    void SetUp() override
    {
        if (::access("/usr/bin/docker-registry", X_OK) != 0)
            GTEST_SKIP() << "no docker-registry here: ./dev deps test";
        Docker::SetUp();
        if (IsSkipped()) return;
        port_ = free_port();
        std::ofstream(data_ + "/registry.yml")
            << "version: 0.1\nstorage: {filesystem: {rootdirectory: " << data_ << "/registry}}\n"
            << "http: {addr: '127.0.0.1:" << port_ << "'}\n";
        registry_ = start({"/usr/bin/docker-registry", "serve", data_ + "/registry.yml"}, port_);
        name_ = "127.0.0.1:" + port_ + "/tiny:1";
        // Of a layer that no other image of the engine has.
        command(
            fmt::format("cd {0} && cp {1} own.tar && head -c 1000000 /dev/urandom > noise && tar -rf own.tar "
                        "noise && docker import own.tar {2} && docker push -q {2} && docker rmi {2}",
                        data_, engine().root_tar(), name_));
    }
    void TearDown() override
    {
        for (const pid_t one : started_) end(one);
        Docker::TearDown();
    }
    static std::string free_port()
    {
        return command("python3 -c 'import socket; s=socket.socket(); s.bind((\"127.0.0.1\",0)); "
                       "print(s.getsockname()[1])'");
    }
    /// A program that listens on the port of loopback, by now.
    pid_t start(const std::vector<std::string>& words, const std::string& port)
    {
        const pid_t pid = ::fork();
        if (pid == 0) {
            const int nowhere = ::open("/dev/null", O_WRONLY);
            ::dup2(nowhere, 1);
            ::dup2(nowhere, 2);
            std::vector<char*> argv;
            for (const auto& word : words) argv.push_back(const_cast<char*>(word.c_str()));
            argv.push_back(nullptr);
            ::execv(argv[0], argv.data());
            ::_exit(127);
        }
        started_.push_back(pid);
        command("for i in $(seq 600); do grep -qi ':" + fmt::format("{:04X}", std::stoi(port)) +
                " 00000000:0000 0A' /proc/net/tcp && exit; sleep 0.1; done; exit 1");
        return pid;
    }
    void end(pid_t pid)
    {
        ::kill(pid, SIGKILL);
        ::waitpid(pid, nullptr, 0);
        std::erase(started_, pid);
    }
    Result<Acquired> pulled(const std::string& key, const std::string& image)
    {
        auto request = wish(key);
        request.spec.root = *parse_template("image:" + image);
        return acquire(std::move(request));
    }
    std::string port_;
    std::string name_;
    pid_t registry_ = -1;
    std::vector<pid_t> started_;
};

TEST_F(DockerPulls, FromARegistryWhatItDoesNotHave)
{
    const auto acquired = pulled("pulled", name_);
    EXPECT_TRUE(acquired) << acquired.error().line();
    if (acquired) EXPECT_EQ(shell("pulled", "echo pulled"), "pulled\n");
    const auto missing = pulled("missing", "127.0.0.1:" + port_ + "/none:1");
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, Code::NotFound) << missing.error().line();
    end(registry_);
    const auto away = pulled("away", "127.0.0.1:" + port_ + "/other:1");
    ASSERT_FALSE(away);
    EXPECT_EQ(away.error().code, Code::Unavailable) << away.error().line();
}

TEST_F(DockerPulls, OneThatIsCutOffIsToldAndLeavesNothing)
{
    // As the registry, but the connection breaks in the middle of the layer.
    std::ofstream(data_ + "/cut.py")
        << "import socket, sys, threading\n"
           "left = [100000]\n"
           "def pump(a, b, counts):\n"
           "    while data := a.recv(4096):\n"
           "        if counts:\n"
           "            left[0] -= len(data)\n"
           "            if left[0] < 0: break\n"
           "        b.sendall(data)\n"
           "    for s in (a, b):\n"
           "        try: s.shutdown(socket.SHUT_RDWR)\n"
           "        except OSError: pass\n"
           "door = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
           "while True:\n"
           "    one = door.accept()[0]\n"
           "    far = socket.create_connection(('127.0.0.1', int(sys.argv[2])))\n"
           "    for a, b, c in ((one, far, 0), (far, one, 1)):\n"
           "        threading.Thread(target=pump, args=(a, b, c), daemon=True).start()\n";
    const auto port = free_port();
    start({"/usr/bin/python3", data_ + "/cut.py", port, port_}, port);
    const auto cut = pulled("cut", "127.0.0.1:" + port + "/tiny:1");
    ASSERT_FALSE(cut);
    EXPECT_EQ(cut.error().code, Code::Unavailable) << cut.error().line();
    EXPECT_THAT(cut.error().line(), HasSubstr("pulling 127.0.0.1:" + port));
    EXPECT_THAT(ours(), IsEmpty());
    EXPECT_THAT(command("docker images -q 127.0.0.1:" + port + "/tiny"), IsEmpty());
    const auto whole = pulled("whole", name_);
    ASSERT_TRUE(whole) << whole.error().line();
    EXPECT_EQ(shell("whole", "echo whole"), "whole\n");
}

class DockerPullsKilled : public Relayed<DockerPulls> {};

TEST_F(DockerPullsKilled, WhileItPulls)
{
    kill_at_each([&] { command("docker rmi -f " + name_ + " >/dev/null 2>&1 || true"); },
                 [&] { return pulled("demo", name_); },
                 [&] {
                     const auto again = pulled("demo", name_);
                     ASSERT_TRUE(again) << again.error().line();
                     EXPECT_EQ(shell("demo", "echo pulled"), "pulled\n");
                 },
                 1);
}

} // namespace
} // namespace berth

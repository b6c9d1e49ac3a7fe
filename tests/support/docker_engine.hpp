#pragma once

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>

#include "base/unique_fd.hpp"
#include "support/places.hpp"

namespace berth::test {

/// An engine of this process's own, named in DOCKER_HOST, and gone with it however it ends: the script that
/// runs it watches a pipe of ours.
class DockerEngine {
public:
    DockerEngine()
    {
        std::array<int, 2> in{}, out{};
        std::string pattern = "/tmp/berth-docker-XXXXXX";
        if (::mkdtemp(pattern.data()) == nullptr || ::pipe2(in.data(), O_CLOEXEC) != 0 ||
            ::pipe2(out.data(), O_CLOEXEC) != 0)
            return;
        directory_ = pattern;
        posix_spawn_file_actions_t actions;
        ::posix_spawn_file_actions_init(&actions);
        ::posix_spawn_file_actions_adddup2(&actions, in[0], 0);
        ::posix_spawn_file_actions_adddup2(&actions, out[1], 1);
        // Not as a child of ours: a test may count those.
        std::string setsid = "setsid", forks = "-f",
                    program = BERTH_SOURCE_DIR "/tests/support/" + engine_name() + "-engine";
        std::array<char*, 5> argv{setsid.data(), forks.data(), program.data(), directory_.data(), nullptr};
        pid_t pid = -1;
        const int failed = ::posix_spawnp(&pid, "setsid", &actions, nullptr, argv.data(), environ);
        if (failed == 0) ::waitpid(pid, nullptr, 0);
        ::posix_spawn_file_actions_destroy(&actions);
        ::close(in[0]);
        ::close(out[1]);
        hold_.reset(in[1]);
        says_.reset(out[0]);
        if (failed != 0) return;
        const std::string line = said();
        ready_ = line == "ready";
        if (line.starts_with("skip ")) reason_ = line.substr(5);
        if (!ready_) return;
        std::string host = "unix://" + directory_ + "/sock";
        if (is_far()) host = "tcp://" + noted("tcp");
        ::setenv("DOCKER_HOST", host.c_str(), 1);
    }
    DockerEngine(const DockerEngine&) = delete;
    DockerEngine& operator=(const DockerEngine&) = delete;
    ~DockerEngine()
    {
        if (::getpid() != maker_) return; // a forked child has a copy of us
        hold_.reset();
        for (char byte = 0; ::read(says_.get(), &byte, 1) == 1;) {
        }
    }

    /// Which of the engines this process is to use: BERTH_TEST_ENGINE, docker without it. `far` is docker as
    /// on another machine.
    [[nodiscard]] static std::string engine_name()
    {
        const char* named = std::getenv("BERTH_TEST_ENGINE");
        return named == nullptr ? "docker" : named;
    }
    [[nodiscard]] static bool is_podman() { return engine_name() == "podman"; }
    [[nodiscard]] static bool is_far() { return engine_name() == "far"; }

    [[nodiscard]] bool ready() const noexcept { return ready_; }
    /// Why there is none, and what would change that.
    [[nodiscard]] const std::string& reason() const noexcept { return reason_; }
    [[nodiscard]] const std::string& directory() const noexcept { return directory_; }
    /// kill -9 of the engine, and of nothing that it started, or whatever it does at another signal. Its end
    /// is waited for.
    void kill(int signal = SIGKILL) const
    {
        const auto pid = static_cast<pid_t>(std::stol(noted("engine")));
        const UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
        if (!process || ::kill(pid, signal) != 0) return; // it has ended already
        pollfd end{.fd = process.get(), .events = POLLIN, .revents = 0};
        ::poll(&end, 1, -1);
    }
    /// Another engine on what a killed one has left; says why not, or nothing.
    [[nodiscard]] std::string start_again() const
    {
        if (::write(hold_.get(), "\n", 1) != 1) return "the engine's script is gone";
        const std::string line = said();
        return line == "ready" ? "" : line;
    }
    [[nodiscard]] std::string root_tar() const { return directory_ + "/root.tar"; }

private:
    std::string said() const
    {
        std::string line;
        for (char byte = 0; ::read(says_.get(), &byte, 1) == 1 && byte != '\n';) line += byte;
        return line;
    }
    std::string noted(const std::string& file) const
    {
        std::ifstream in(directory_ + "/" + file);
        std::string line;
        std::getline(in, line);
        return line;
    }

    std::string directory_;
    UniqueFd hold_; ///< the script ends when this does
    UniqueFd says_; ///< ends when the script has
    pid_t maker_ = ::getpid();
    bool ready_ = false;
    std::string reason_ = "the engine's script could not be started";
};

/// The backend that BERTH_TEST_BACKEND names, `local` without it, and what it needs to be there: why it is
/// not, or nothing.
struct TestedBackend {
    std::string name = "local";
    std::string lacking;
    std::string root_tar; ///< what sandboxes start from; empty: the backend's own

    static const TestedBackend& get()
    {
        static const TestedBackend one = [] {
            TestedBackend out;
            const char* named = std::getenv("BERTH_TEST_BACKEND");
            if (named != nullptr) out.name = named;
            if (out.name != "docker") return out;
            static const DockerEngine engine;
            out.lacking = engine.ready() ? "" : engine.reason();
            out.root_tar = engine.root_tar();
            return out;
        }();
        return one;
    }
};

} // namespace berth::test

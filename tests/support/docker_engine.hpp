#pragma once

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>

#include "base/unique_fd.hpp"

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
        std::string program = BERTH_SOURCE_DIR "/tests/support/docker-engine";
        std::array<char*, 3> argv{program.data(), directory_.data(), nullptr};
        const int failed = ::posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv.data(), environ);
        ::posix_spawn_file_actions_destroy(&actions);
        ::close(in[0]);
        ::close(out[1]);
        hold_.reset(in[1]);
        const UniqueFd says(out[0]);
        if (failed != 0) return;
        std::string line;
        for (char byte = 0; ::read(says.get(), &byte, 1) == 1 && byte != '\n';) line += byte;
        ready_ = line == "ready";
        if (line.starts_with("skip ")) reason_ = line.substr(5);
        if (ready_) ::setenv("DOCKER_HOST", ("unix://" + directory_ + "/sock").c_str(), 1);
    }
    DockerEngine(const DockerEngine&) = delete;
    DockerEngine& operator=(const DockerEngine&) = delete;
    ~DockerEngine()
    {
        hold_.reset();
        if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
    }

    [[nodiscard]] bool ready() const noexcept { return ready_; }
    /// Why there is none, and what would change that.
    [[nodiscard]] const std::string& reason() const noexcept { return reason_; }
    [[nodiscard]] const std::string& directory() const noexcept { return directory_; }
    [[nodiscard]] std::string root_tar() const { return directory_ + "/root.tar"; }

private:
    std::string directory_;
    UniqueFd hold_;
    pid_t pid_ = -1;
    bool ready_ = false;
    std::string reason_ = "the engine's script could not be started";
};

} // namespace berth::test

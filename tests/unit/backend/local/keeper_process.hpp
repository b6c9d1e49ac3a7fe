#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backend/local/shared.hpp"
#include "keeping/exec_follower.hpp"
#include "keeping/exec_log.hpp"
#include "keeping/keeper_client.hpp"
#include "keeping/keeper_image.hpp"
#include "sys/child.hpp"
#include "sys/socket.hpp"

/// A keeper as an ordinary child of the test: its socket and the logs of its execs are in a
/// directory of its own that goes with it.
namespace berth::local::test {

using namespace std::chrono_literals;

template <class T> T must(Result<T> result)
{
    if (!result) throw std::runtime_error(result.error().line());
    return *std::move(result);
}
inline void must(Status status)
{
    if (!status) throw std::runtime_error(status.error().line());
}

class TempDir {
public:
    TempDir()
    {
        std::string pattern = (std::filesystem::temp_directory_path() / "berth-keeper-XXXXXX").string();
        if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
        path_ = pattern;
        fd_.reset(::open(path_.c_str(), O_DIRECTORY | O_RDONLY | O_CLOEXEC));
    }
    TempDir(const TempDir&) = delete;
    TempDir& operator=(const TempDir&) = delete;
    ~TempDir()
    {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    [[nodiscard]] const std::string& path() const { return path_; }
    [[nodiscard]] int fd() const { return fd_.get(); }
    [[nodiscard]] UniqueFd sub(const std::string& name) const
    {
        ::mkdirat(fd(), name.c_str(), 0700);
        return UniqueFd(::openat(fd(), name.c_str(), O_DIRECTORY | O_RDONLY | O_CLOEXEC));
    }

private:
    std::string path_;
    UniqueFd fd_;
};

/// Starts the embedded program with `fd3` as its descriptor 3. Orphans of what it starts are given to
/// it, as they would be to pid 1.
inline sys::Child start_keeper(std::vector<std::string> words, int fd3, std::vector<std::string> env = {},
                               std::array<int, 3> standard = {0, 1, 2}, unsigned long namespaces = 0)
{
    const int image = must(keeper_image());
    std::vector<char*> argv, envp;
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    for (auto& word : env) envp.push_back(word.data());
    envp.push_back(nullptr);
    const auto pid = static_cast<pid_t>(::syscall(SYS_clone, namespaces | SIGCHLD, 0, 0, 0, 0));
    if (pid < 0) throw std::runtime_error("clone");
    if (pid == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::prctl(PR_SET_CHILD_SUBREAPER, 1);
        const int program = ::fcntl(image, F_DUPFD_CLOEXEC, 100);
        const int socket = ::fcntl(fd3, F_DUPFD, 100);
        for (int i = 0; i < 3; ++i) ::dup2(standard[static_cast<std::size_t>(i)], i);
        ::dup2(socket, 3);
        ::close(socket);
        ::execveat(program, "", argv.data(), envp.data(), AT_EMPTY_PATH);
        ::_exit(99);
    }
    return must(sys::Child::adopt(pid));
}

struct Ran {
    std::string out, err;
    std::vector<ExecEvent> events;
    std::uint64_t lost = 0;
    ExitStatus status;
};

inline void add(Ran& ran, const ExecEvent& event)
{
    if (event.kind == ExecEvent::Kind::Stdout || event.kind == ExecEvent::Kind::Pty) ran.out += event.bytes;
    if (event.kind == ExecEvent::Kind::Stderr) ran.err += event.bytes;
    if (event.kind == ExecEvent::Kind::Gap) ran.lost += event.gap_bytes;
    if (event.kind == ExecEvent::Kind::Exit) ran.status = event.status;
    ran.events.push_back(event);
}

/// Everything up to `closed`.
inline Ran read_all(ExecFollower& follower, std::chrono::seconds patience = 30s)
{
    Ran ran;
    const auto until = std::chrono::steady_clock::now() + patience;
    while (!follower.ended()) {
        for (const auto& event : must(follower.next(until))) add(ran, event);
        if (std::chrono::steady_clock::now() >= until) throw std::runtime_error("the log does not end");
    }
    return ran;
}

class KeeperProcess {
public:
    explicit KeeperProcess(std::string allowed_uid = std::to_string(::getuid())) : child_(start(allowed_uid))
    {
    }

    KeeperProcess(const KeeperProcess&) = delete;
    KeeperProcess& operator=(const KeeperProcess&) = delete;
    /// Not being pid 1 it takes nobody with it when it dies: it is asked to first.
    ~KeeperProcess()
    {
        if (auto last = KeeperClient::connect(dir.fd(), "socket", 5s)) static_cast<void>(last->stop());
    }

    [[nodiscard]] KeeperClient client(std::chrono::milliseconds patience = 10s) const
    {
        return must(KeeperClient::connect(dir.fd(), "socket", patience));
    }
    [[nodiscard]] sys::Child& child() { return child_; }
    [[nodiscard]] std::size_t open_descriptors() const
    {
        // A keeper is not dumpable: of its /proc files an ordinary user sees none.
        const auto fds = std::filesystem::path("/proc") / std::to_string(child_.pid()) / "fd";
        std::size_t n = 0;
        for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(fds)) ++n;
        return n;
    }

    [[nodiscard]] static KeeperExec command(std::uint64_t id, std::vector<std::string> argv)
    {
        KeeperExec what;
        what.id = id;
        what.argv = std::move(argv);
        what.env = {"PATH=/usr/local/bin:/usr/bin:/bin"};
        what.cwd = "/";
        what.uid = ::getuid();
        what.gid = ::getgid();
        return what;
    }
    [[nodiscard]] static KeeperExec shell(std::uint64_t id, const std::string& script)
    {
        return command(id, {"sh", "-c", script});
    }

    [[nodiscard]] ExecLog make_log(const KeeperExec& what) const
    {
        const bool terminal = what.flags & keeper::kTerminal;
        return must(ExecLog::create(dir.sub("exec-" + std::to_string(what.id)).get(),
                                    terminal ? ExecLog::Streams::Terminal : ExecLog::Streams::Separate));
    }
    [[nodiscard]] ExecLog open_log(std::uint64_t id, ExecLog::Access access = ExecLog::Access::Read) const
    {
        return must(ExecLog::open(dir.sub("exec-" + std::to_string(id)).get(), access));
    }
    [[nodiscard]] ExecFollower follow(std::uint64_t id, std::uint64_t from = 0) const
    {
        return must(ExecFollower::follow(open_log(id), id, from, client()));
    }

    /// Starts it, reads its log to the end.
    Ran run(KeeperClient& client, const KeeperExec& what)
    {
        const ExecLog log = make_log(what);
        const Launched launched = must(client.exec(what, log));
        if (!launched.started()) throw std::runtime_error(launched.reason());
        ExecFollower follower = follow(what.id);
        return read_all(follower);
    }

    TempDir dir;

private:
    sys::Child start(const std::string& allowed_uid)
    {
        const UniqueFd listener = must(sys::listen_at(dir.fd(), "socket", sys::SocketKind::SeqPacket));
        return start_keeper({"k", "test", allowed_uid}, listener.get());
    }
    sys::Child child_;
};

} // namespace berth::local::test

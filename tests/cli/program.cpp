#include "cli/program.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include "cli/place.hpp"
#include "support/places.hpp"

namespace berth::test {

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

/// Far beyond what anything takes on a loaded machine; reaching it is a failure.
constexpr auto kLongest = 90s;

std::vector<pid_t>& pids()
{
    static std::vector<pid_t> all;
    return all;
}

struct Pipe {
    UniqueFd read, write;
    Pipe()
    {
        int ends[2];
        if (::pipe2(&ends[0], O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
        read.reset(ends[0]);
        write.reset(ends[1]);
    }
};

std::string in_program_dir(const char* name, const char* otherwise)
{
    const char* dir = std::getenv("BERTH_PROGRAM_DIR"); // NOLINT(concurrency-mt-unsafe): one thread
    return dir != nullptr ? std::string(dir) + "/" + name : std::string(otherwise);
}

std::vector<char*> pointers(const Words& words)
{
    std::vector<char*> out;
    for (const auto& word : words) out.push_back(const_cast<char*>(word.c_str())); // execve's old signature
    out.push_back(nullptr);
    return out;
}

/// True while more may come.
bool read_some(UniqueFd& fd, std::string& into)
{
    std::array<char, 65536> buffer{};
    const ssize_t n = ::read(fd.get(), buffer.data(), buffer.size());
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (n <= 0) {
        fd.reset();
        return false;
    }
    into.append(buffer.data(), static_cast<std::size_t>(n));
    return true;
}

} // namespace

Started::Started(const Start& start) : input_(start.input.value_or("")), start_(Clock::now())
{
    const std::string path = start.program.empty() ? program() : start.program;
    Words argv{path};
    argv.insert(argv.end(), start.args.begin(), start.args.end());
    std::map<std::string, std::string> env{
        {"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
        {"HOME", Place::here().path()},
        {"BERTH_DATA", Place::here().state()},
        {"BERTH_TEST_MARK", Place::here().mark()},
    };
    for (const auto& [name, value] : start.env) env[name] = value;
    Words pairs;
    for (const auto& [name, value] : env) pairs.push_back(name + "=" + value);
    const auto argv_words = pointers(argv);
    const auto env_words = pointers(pairs);

    Pipe in;
    Pipe out;
    Pipe err;
    UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    const int child_in = start.in >= 0 ? start.in : start.input ? in.read.get() : null.get();
    const int child_out = start.out >= 0 ? start.out : out.write.get();
    const int child_err = start.err >= 0 ? start.err : err.write.get();
    pid_ = ::fork();
    if (pid_ < 0) throw std::runtime_error("fork");
    if (pid_ == 0) {
        for (const int signo : {SIGPIPE, SIGINT, SIGQUIT, SIGHUP, SIGTERM}) std::signal(signo, SIG_DFL);
        if (start.in_child) start.in_child();
        ::dup2(child_in, 0);
        ::dup2(child_out, 1);
        ::dup2(child_err, 2);
        if (start.in == -2) ::close(0);
        if (start.out == -2) ::close(1);
        ::execve(path.c_str(), argv_words.data(), env_words.data());
        ::_exit(errno == E2BIG ? 207 : 209);
    }
    pids().push_back(pid_);
    if (start.input) in_ = std::move(in.write);
    if (start.out == -1) out_ = std::move(out.read);
    if (start.err < 0) err_ = std::move(err.read);
    for (const auto* fd : {&in_, &out_, &err_})
        if (*fd) ::fcntl(fd->get(), F_SETFL, O_NONBLOCK);
    std::signal(SIGPIPE, SIG_IGN);
}

Started::~Started()
{
    if (reaped_) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
}

void Started::signal(int signo) const { ::kill(pid_, signo); }

bool Started::write(std::string_view bytes) const
{
    while (!bytes.empty()) {
        pollfd ready{.fd = in_.get(), .events = POLLOUT, .revents = 0};
        if (::poll(&ready, 1, 30'000) <= 0) return false;
        const ssize_t n = ::write(in_.get(), bytes.data(), bytes.size());
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
        if (n < 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
}

void Started::read_streams(Clock::time_point until, const std::function<bool()>& enough)
{
    while (!enough()) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
        if (left.count() <= 0) return;
        std::array<pollfd, 3> set{{{.fd = out_.get(), .events = POLLIN, .revents = 0},
                                   {.fd = err_.get(), .events = POLLIN, .revents = 0},
                                   {.fd = -1, .events = POLLOUT, .revents = 0}}};
        if (!input_.empty() && in_) set[2].fd = in_.get();
        if (::poll(set.data(), set.size(), static_cast<int>(left.count())) < 0 && errno != EINTR) return;
        if (set[0].revents != 0) read_some(out_, ended_.out);
        if (set[1].revents != 0) read_some(err_, ended_.err);
        if (set[2].revents != 0) {
            const ssize_t n = ::write(in_.get(), input_.data(), input_.size());
            if (n > 0) input_.erase(0, static_cast<std::size_t>(n));
            if (n < 0 && errno != EAGAIN && errno != EINTR) input_.clear();
            if (input_.empty()) in_.reset();
        }
    }
}

bool Started::wait_for(std::string_view text)
{
    read_streams(Clock::now() + kLongest,
                 [&] { return !out_ || ended_.out.find(text) != std::string::npos; });
    return ended_.out.find(text) != std::string::npos;
}

Ended Started::finish()
{
    if (input_.empty()) in_.reset();
    const auto until = start_ + kLongest;
    read_streams(until, [&] { return !out_ && !err_; });
    int status = 0;
    pid_t got = 0;
    while ((got = ::waitpid(pid_, &status, WNOHANG)) == 0 && Clock::now() < until)
        std::this_thread::sleep_for(1ms);
    if (got == 0) {
        ADD_FAILURE() << "the program did not end; out: " << ended_.out << " err: " << ended_.err;
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, &status, 0);
    }
    reaped_ = true;
    ended_.took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start_);
    ended_.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    ended_.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    return ended_;
}

Ended run(const Start& start) { return Started(start).finish(); }

Ended berth(Words args) { return run({.args = std::move(args)}); }

Ended shell(Words options, const std::string& script)
{
    Words args{"run"};
    args.insert(args.end(), options.begin(), options.end());
    args.insert(args.end(), {"--", "sh", "-c", script});
    return berth(std::move(args));
}

std::string program() { return in_program_dir("berth", BERTH_PROGRAM); }
std::string hooks_program() { return in_program_dir("berth-hooks", BERTH_HOOKS_PROGRAM); }

bool is_root() { return ::geteuid() == 0; }

bool eventually(const std::function<bool()>& holds)
{
    const auto until = Clock::now() + 60s;
    while (!holds()) {
        if (Clock::now() > until) return false;
        std::this_thread::sleep_for(5ms);
    }
    return true;
}

std::string trimmed(std::string text)
{
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
    return text;
}

const std::vector<pid_t>& started_pids() { return pids(); }

} // namespace berth::test

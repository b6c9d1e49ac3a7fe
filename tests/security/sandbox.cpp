#include "sandbox.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/unique_fd.hpp"

namespace security {

namespace {

using berth::UniqueFd;

struct Ends {
    UniqueFd read;
    UniqueFd write;
};

Ends make_pipe()
{
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) std::abort();
    return {.read = UniqueFd(ends[0]), .write = UniqueFd(ends[1])};
}

Words command_line(const Words& options, const Words& command, const Around& around)
{
    Words words{around.program.empty() ? program() : around.program, around.verb, "--data",
                state_directory()};
    words.insert(words.end(), options.begin(), options.end());
    if (!command.empty()) words.emplace_back("--");
    words.insert(words.end(), command.begin(), command.end());
    return words;
}

/// Ours, without what would make berth behave unlike a user's, and what the test adds.
Words environment(const Around& around)
{
    std::map<std::string, std::string> all{{"PATH", "/usr/bin:/bin:/usr/sbin:/sbin"}, {"HOME", place()}};
    // NOLINTNEXTLINE(concurrency-mt-unsafe): one thread
    if (const char* walls = std::getenv("BERTH_TEST_WALLS_OFF")) all["BERTH_TEST_WALLS_OFF"] = walls;
    for (const auto& [name, value] : around.env) all[name] = value;
    Words out;
    for (const auto& [name, value] : all) out.push_back(name + "=" + value);
    return out;
}

std::vector<char*> pointers(Words& words)
{
    std::vector<char*> out;
    for (auto& word : words) out.push_back(word.data());
    out.push_back(nullptr);
    return out;
}

pid_t start(const Words& options, const Words& command, const Around& around, int in, int out, int err)
{
    Words line = command_line(options, command, around);
    Words env = environment(around);
    const auto argv = pointers(line);
    const auto envp = pointers(env);
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    ::dup2(in, 0);
    ::dup2(out, 1);
    ::dup2(err, 2);
    for (const auto& [ours, theirs] : around.descriptors) ::dup2(ours, theirs);
    ::execve(argv[0], argv.data(), envp.data());
    ::_exit(126);
}

int shell_code(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

Words with_probe(const Words& options, const Around& around)
{
    if (around.verb != "run") return options; // whoever made the sandbox has put it there
    Words all{"--mount", place() + "/probe:/probe:ro"};
    if (std::ranges::find(options, "--timeout") == options.end())
        all.insert(all.end(), {"--timeout", "300s"});
    all.insert(all.end(), options.begin(), options.end());
    return all;
}

} // namespace

Outcome run(const Words& options, const Words& command, const Around& around)
{
    Ends in = make_pipe();
    Ends out = make_pipe();
    Ends err = make_pipe();
    const pid_t pid = start(options, command, around, in.read.get(), out.write.get(), err.write.get());
    in.read.reset();
    out.write.reset();
    err.write.reset();
    // Inputs of tests are smaller than a pipe.
    (void)!::write(in.write.get(), around.input.data(), around.input.size());
    in.write.reset();

    Outcome outcome;
    std::array<char, 65536> buffer{};
    const auto drain = [&](UniqueFd& fd, bool is_out) {
        const ssize_t n = ::read(fd.get(), buffer.data(), buffer.size());
        if (n <= 0) return fd.reset();
        const std::string_view bytes(buffer.data(), static_cast<std::size_t>(n));
        if (is_out && around.output)
            around.output(bytes);
        else
            (is_out ? outcome.out : outcome.err) += bytes;
    };
    while (out.read || err.read) {
        std::array<pollfd, 2> set{{{.fd = out.read.get(), .events = POLLIN, .revents = 0},
                                   {.fd = err.read.get(), .events = POLLIN, .revents = 0}}};
        if (::poll(set.data(), set.size(), -1) < 0) continue;
        if (set[0].revents != 0) drain(out.read, true);
        if (set[1].revents != 0) drain(err.read, false);
    }
    int status = 0;
    rusage usage{};
    ::wait4(pid, &status, 0, &usage);
    outcome.code = shell_code(status);
    outcome.peak_kib = usage.ru_maxrss;
    return outcome;
}

Outcome inside(const std::string& script, const Words& options, const Around& around)
{
    return run(with_probe(options, around), {"sh", "-c", script}, around);
}

std::string answer(const std::string& script, const Words& options, const Around& around)
{
    const Outcome outcome = inside(script, options, around);
    if (outcome.code == 0) return outcome.out;
    return outcome.out + "exit " + std::to_string(outcome.code) + ": " + outcome.err;
}

Words mightiest() { return as_root() ? Words{"-u", "root"} : Words{}; }

Running::Running(const Words& options, const std::string& script, const Around& around)
{
    Ends in = make_pipe();
    Ends out = make_pipe();
    pid_ =
        start(with_probe(options, around), {"sh", "-c", script}, around, in.read.get(), out.write.get(), 2);
    in_ = in.write.release();
    out_ = out.read.release();
}

Running::~Running()
{
    if (pid_ > 0) {
        signal(SIGKILL);
        wait();
    }
    if (out_ >= 0) ::close(out_);
}

std::string Running::line()
{
    for (;;) {
        if (const auto end = rest_.find('\n'); end != std::string::npos) {
            std::string found = rest_.substr(0, end);
            rest_.erase(0, end + 1);
            return found;
        }
        std::array<char, 4096> buffer{};
        const ssize_t n = ::read(out_, buffer.data(), buffer.size());
        if (n <= 0) return {};
        rest_.append(buffer.data(), static_cast<std::size_t>(n));
    }
}

pid_t Running::first_process() const
{
    const std::string path = "/proc/" + std::to_string(pid_) + "/task/" + std::to_string(pid_) + "/children";
    std::ifstream children(path);
    pid_t child = 0;
    children >> child;
    return child;
}

void Running::signal(int signo) const { ::kill(pid_, signo); }

int Running::wait()
{
    if (in_ >= 0) ::close(std::exchange(in_, -1));
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return shell_code(status);
}

std::vector<pid_t> processes_named(const std::string& name)
{
    std::vector<pid_t> found;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
        const std::string number = entry.path().filename();
        if (number.find_first_not_of("0123456789") != std::string::npos) continue;
        std::ifstream file(entry.path() / "cmdline");
        std::string first;
        std::getline(file, first, '\0');
        if (first == name) found.push_back(static_cast<pid_t>(std::stol(number)));
    }
    return found;
}

} // namespace security

#include "bench/served.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>

#include "base/io.hpp"
#include "base/json_reader.hpp"
#include "base/scope_exit.hpp"
#include "base/strings.hpp"
#include "base/unique_fd.hpp"
#include "bench/command.hpp"
#include "http_client/client.hpp"

namespace berth::bench {

Result<std::unique_ptr<Served>> Served::start(const std::string& data,
                                              const std::vector<std::string>& options)
{
    BERTH_TRY(const auto program, own_program());
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return fail_errno("making a pipe");
    const UniqueFd says(pipe[0]);
    UniqueFd writes(pipe[1]);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    const ScopeExit destroy([&] { ::posix_spawn_file_actions_destroy(&actions); });
    ::posix_spawn_file_actions_adddup2(&actions, writes.get(), STDOUT_FILENO);
    std::vector<std::string> words{program,  "serve", "--listen",    "127.0.0.1:0", "--json",
                                   "--data", data,    "--log-level", "error"};
    words.insert(words.end(), options.begin(), options.end());
    std::vector<char*> argv;
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    std::unique_ptr<Served> out(new Served);
    const int failed = ::posix_spawn(&out->pid_, program.c_str(), &actions, nullptr, argv.data(), environ);
    if (failed != 0) return fail_with(failed, "starting {}", program);
    writes.reset();
    std::string line;
    for (char byte = 0; ::read(says.get(), &byte, 1) == 1 && byte != '\n';) line += byte;
    BERTH_TRY(const auto document, json::parse(line));
    const json::Reader at(document);
    BERTH_TRY(const auto url, at.at("listening"));
    BERTH_TRY(out->url_, url.string());
    BERTH_TRY(const auto key, at.at("key"));
    BERTH_TRY(out->key_, key.string());
    return out;
}

Served::~Served()
{
    if (pid_ <= 0) return;
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
    // What it left to the next of kin is ours, as this process has wished.
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
}

Result<e2b_client::Config> Served::config() const
{
    return e2b_client::read_config({{"E2B_API_KEY", key_}, {"E2B_API_URL", url_}, {"E2B_SANDBOX_URL", url_}});
}

std::uint16_t Served::port() const
{
    return static_cast<std::uint16_t>(std::strtoul(url_.c_str() + url_.rfind(':') + 1, nullptr, 10));
}

Result<double> Served::metric(const std::string& name) const
{
    BERTH_TRY(const auto origin, http_client::parse_url(url_));
    http_client::Client client(origin.place);
    auto got = client.call({.method = "GET", .target = "/metrics"});
    if (!got.answer) return std::unexpected(std::move(got.answer).error());
    for (const auto& line : split(got.answer->body, '\n'))
        if (line.starts_with(name + " ")) return std::strtod(line.c_str() + name.size(), nullptr);
    return 0;
}

Result<double> processor_time(pid_t pid)
{
    clockid_t clock{};
    if (const int failed = ::clock_getcpuclockid(pid, &clock); failed != 0)
        return fail_with(failed, "finding the processor time of {}", pid);
    timespec used{};
    if (::clock_gettime(clock, &used) != 0) return fail_errno("reading the processor time of {}", pid);
    return static_cast<double>(used.tv_sec) * 1e9 + static_cast<double>(used.tv_nsec);
}

Result<double> memory_of(pid_t pid, const std::string& name)
{
    BERTH_TRY(const auto text, read_file(fmt::format("/proc/{}/status", pid)));
    const auto at = text.find("\n" + name);
    if (at == std::string::npos) return fail(Code::Internal, "/proc/{}/status tells no {}", pid, name);
    return std::strtod(text.c_str() + at + 1 + name.size(), nullptr) * 1024;
}

Status forget_peak(pid_t pid) { return write_control(fmt::format("/proc/{}/clear_refs", pid), "5"); }

} // namespace berth::bench

#include "bench/sdk_rows.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>

#include "base/io.hpp"
#include "base/json_reader.hpp"
#include "base/scope_exit.hpp"
#include "base/strings.hpp"
#include "base/unique_fd.hpp"
#include "bench/command.hpp"

namespace berth::bench {

namespace {

/// What a program that uses the SDK does; it tells milliseconds, one a line, and what failed.
constexpr const char* kScript = R"(
import { Sandbox } from 'e2b'
const [count, apart] = process.argv.slice(1).map(Number)
async function once() {
  const begun = performance.now()
  let first = 0
  let sandbox
  try {
    sandbox = await Sandbox.create()
    const ran = await sandbox.commands.run('echo ready', { onStdout: () => { first ||= performance.now() } })
    if (ran.stdout !== 'ready\n') throw new Error('it printed ' + JSON.stringify(ran.stdout))
    console.log(first - begun)
  } catch (error) {
    console.log('failed ' + String(error).split('\n')[0])
  } finally {
    await sandbox?.kill()
  }
}
if (apart < 0) {
  for (let i = 0; i < count; i++) await once()
} else {
  const all = []
  for (let i = 0; i < count; i++) {
    all.push(once())
    if (apart > 0) await new Promise((done) => setTimeout(done, apart))
  }
  await Promise.all(all)
}
)";

/// Where ./dev deps sdk puts it: beside the program.
std::string sdk_directory()
{
    const auto program = own_program();
    if (!program) return {};
    const std::string out = program->substr(0, program->rfind('/')) + "/sdk";
    return ::access((out + "/node_modules/e2b/package.json").c_str(), R_OK) == 0 ? out : std::string{};
}

/// Everything node prints.
Result<std::string> run_node(const std::string& node, const std::string& directory, const Served& server,
                             const std::string& count, const std::string& apart)
{
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return fail_errno("making a pipe");
    const UniqueFd says(pipe[0]);
    UniqueFd writes(pipe[1]);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    const ScopeExit destroy([&] { ::posix_spawn_file_actions_destroy(&actions); });
    ::posix_spawn_file_actions_adddup2(&actions, writes.get(), STDOUT_FILENO);
    ::posix_spawn_file_actions_addchdir_np(&actions, directory.c_str());
    std::array<std::string, 7> words{node, "--input-type=module", "-e", kScript, "--", count, apart};
    std::array<char*, 8> argv{};
    for (std::size_t i = 0; i < words.size(); ++i) argv[i] = words[i].data();
    std::array<std::string, 5> variables{"E2B_API_KEY=" + server.key(), "E2B_API_URL=" + server.url(),
                                         "E2B_SANDBOX_URL=" + server.url(), "PATH=/usr/bin:/bin", "HOME=/"};
    std::array<char*, 6> env{};
    for (std::size_t i = 0; i < variables.size(); ++i) env[i] = variables[i].data();
    pid_t pid = -1;
    const int failed = ::posix_spawn(&pid, node.c_str(), &actions, nullptr, argv.data(), env.data());
    if (failed != 0) return fail_with(failed, "starting {}", node);
    writes.reset();
    std::string told;
    std::array<char, 4096> piece{};
    for (ssize_t n = 0; (n = ::read(says.get(), piece.data(), piece.size())) > 0;)
        told.append(piece.data(), static_cast<std::size_t>(n));
    int status = 0;
    ::waitpid(pid, &status, 0);
    if (status != 0) return fail(Code::Internal, "node ended with wait status {}", status);
    return told;
}

} // namespace

void add_sdk_rows(Context& context, Table& table, const Served& server, unsigned at_once)
{
    const std::string directory = sdk_directory();
    const std::string own_node = directory + "/node_modules/.bin/node";
    const std::string node = ::access(own_node.c_str(), X_OK) == 0 ? own_node : find_program("node");
    if (node.empty() || directory.empty()) {
        table.skipped.push_back(
            {.name = "the real SDK",
             .reason = node.empty() ? "there is no node" : "npm e2b is not beside the program",
             .remedy = "./dev deps sdk"});
        return;
    }
    struct Row {
        const char* name;
        unsigned count;
        int apart; ///< milliseconds; negative: each after the end of the one before
    };
    const std::array rows{Row{kSdkSequential, std::min(context.options().rounds, 50u), -1},
                          Row{kSdkStaggered, at_once, 200}, Row{kSdkBurst, at_once, 0}};
    for (const auto& row : rows) {
        Series series{.name = row.name};
        for (unsigned i = 0; i < context.options().repeats && !context.interrupted(); ++i) {
            context.progress(fmt::format("tti: {} of {}, {}", i + 1, context.options().repeats, row.name));
            const auto told =
                run_node(node, directory, server, std::to_string(row.count), std::to_string(row.apart));
            if (!told) {
                table.problems.push_back(fmt::format("{}: {}", row.name, told.error().line()));
                break;
            }
            auto& samples = series.repeats.emplace_back();
            std::size_t failed = 0;
            std::string why;
            for (const auto& line : split(*told, '\n')) {
                if (line.empty()) continue;
                if (line.starts_with("failed ")) {
                    ++failed;
                    why = line;
                } else {
                    samples.push_back(std::strtod(line.c_str(), nullptr) * 1e6);
                }
            }
            if (failed > 0 || samples.size() != row.count)
                table.problems.push_back(fmt::format("{}: {} of {} came to an end: {}", row.name,
                                                     samples.size(), row.count, printable(why, 200)));
        }
        table.series.push_back(std::move(series));
    }
}

} // namespace berth::bench

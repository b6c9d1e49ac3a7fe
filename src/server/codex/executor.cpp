#include "server/codex/executor.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdlib>

#include "backend/local/attended.hpp"
#include "base/ids.hpp"
#include "base/log.hpp"
#include "base/strings.hpp"
#include "protocol/codex/path_uri.hpp"
#include "protocol/jsonrpc/message.hpp"
#include "server/codex/real_paths.hpp"

extern char** environ; // NOLINT(readability-redundant-declaration): only glibc's extension declares it

namespace berth::codex {

namespace {

constexpr int kBindAgain = 8;

std::map<std::string, std::string> own_environment(const std::vector<std::string>& patterns)
{
    std::map<std::string, std::string> out;
    for (char** at = environ; at != nullptr && *at != nullptr; ++at) {
        const std::string_view line = *at;
        const auto sign = line.find('=');
        if (sign == std::string_view::npos || sign == 0) continue;
        const auto name = line.substr(0, sign);
        if (std::ranges::any_of(patterns, [&](const auto& pattern) { return wildcard_match(pattern, name); }))
            out.emplace(name, line.substr(sign + 1));
    }
    return out;
}

std::vector<std::string> lines_of(const std::map<std::string, std::string>& env)
{
    std::vector<std::string> out;
    out.reserve(env.size());
    for (const auto& [name, value] : env) out.push_back(name + "=" + value);
    return out;
}

/// A command without a slash and without a PATH of its own is looked for on ours.
void find_program(local::AttendedCommand& command, const std::map<std::string, std::string>& env,
                  const std::map<std::string, std::string>& own)
{
    if (env.contains("PATH") || command.argv.front().find('/') != std::string::npos) return;
    const auto path = own.find("PATH");
    if (path == own.end()) return;
    for (const auto& dir : split(path->second, ':')) {
        const std::string candidate = fmt::format("{}/{}", dir, command.argv.front());
        if (dir.empty() || ::access(candidate.c_str(), X_OK) != 0) continue;
        command.argv.front() = candidate;
        return;
    }
}

SandboxSpec spec_for(const Bound& bound)
{
    SandboxSpec spec;
    spec.id = make_sandbox_id(system_clock());
    spec.root.kind = Template::Kind::Live;
    spec.policy = bound.policy;
    spec.mounts = bound.mounts;
    return spec;
}

/// Something that was bound is not there any more: the placeholder of a command that has ended, say.
bool is_outdated(const Bound& bound)
{
    return std::ranges::any_of(bound.mounts, [](const Mount& mount) {
        return ::access(mount.source.c_str(), F_OK) != 0 && errno == ENOENT;
    });
}

class HostRun final : public Running {
public:
    explicit HostRun(local::Attended command) : command_(std::move(command))
    {
        in = std::move(command_.in);
        out = std::move(command_.out);
        err = std::move(command_.err);
    }
    [[nodiscard]] int ended() const override { return command_.pidfd(); }
    [[nodiscard]] ExitStatus finish() override { return command_.finish(); }
    [[nodiscard]] bool refused() const override { return command_.refused(); }
    void signal(int signo) override { command_.signal(signo); }
    void kill() override { command_.kill(); }

private:
    local::Attended command_;
};

} // namespace

Executor::Executor(local::StateDir state, Ceiling ceiling, BlockingPool& pool)
    : state_(std::move(state)), ceiling_(std::move(ceiling)), pool_(pool),
      environment_(own_environment(ceiling_.pass_env))
{
    RealPaths real;
    places_.state = real.nearest(state_.path());
    for (auto& root : ceiling_.roots) root = real.nearest(root);
    if (!ceiling_.token_file.empty()) places_.token = real.nearest(ceiling_.token_file);
    const char* const tmpdir = std::getenv("TMPDIR"); // NOLINT(concurrency-mt-unsafe): before any thread
    if (tmpdir != nullptr && tmpdir[0] == '/') places_.tmpdir = tmpdir;
}

json::Object Executor::info() const
{
    json::Object shell;
    const bool bash = ::access("/bin/bash", X_OK) == 0;
    shell["name"] = bash ? "bash" : "sh";
    shell["path"] = bash ? "/bin/bash" : "/bin/sh";
    json::Object capabilities;
    capabilities["sandboxedFileStreaming"] = true;
    capabilities["fileWriteStreaming"] = true;
    capabilities["fsWatchMissing"] = true;
    json::Object out;
    out["shell"] = std::move(shell);
    char cwd[PATH_MAX];
    if (::getcwd(&cwd[0], sizeof cwd) != nullptr) out["cwd"] = path_uri(&cwd[0]);
    json::Array temporary;
    if (!places_.tmpdir.empty()) temporary.emplace_back(path_uri(places_.tmpdir));
    out["temporaryDirectories"] = std::move(temporary);
    out["tempDir"] = path_uri(places_.tmpdir.empty() ? "/tmp" : places_.tmpdir);
    out["capabilities"] = std::move(capabilities);
    if (const auto home = environment_.find("HOME");
        home != environment_.end() && home->second.starts_with('/'))
        out["userHomeDir"] = path_uri(home->second);
    out["platformOs"] = "linux";
    return out;
}

Task<Outcome<Started>> Executor::start(StartParams params)
{
    if (auto refused = refuse_unheld(params)) co_return std::unexpected(*std::move(refused));
    // Whatever blocks, the launch too, happens on a thread that lives as long as we do: the command dies with
    // it.
    auto started = co_await pool_.call([this, &params]() -> Outcome<Started> {
        const auto env = make_environment(environment_, params);
        local::AttendedCommand command{.argv = params.argv,
                                       .env = lines_of(env),
                                       .cwd = params.cwd,
                                       .arg0 = params.arg0,
                                       .input = params.pipe_stdin && !params.tty};
        if (params.tty) command.terminal = TerminalSize{};
        find_program(command, env, environment_);
        const auto launch = [&](const Bound& bound) {
            return bound.confined ? local::Attended::start(state_, spec_for(bound), command)
                                  : local::Attended::start_bare(command);
        };
        auto bound = bind_intent(params.sandbox, params.cwd, ceiling_, places_);
        if (!bound) return start_failed(bound.error());
        auto made = launch(*bound);
        for (int again = 0; !made && is_outdated(*bound) && again < kBindAgain; ++again) {
            bound = bind_intent(params.sandbox, params.cwd, ceiling_, places_);
            if (!bound) return start_failed(bound.error());
            made = launch(*bound);
        }
        if (!made) return start_failed(made.error());
        for (const auto& note : bound->notes)
            log::info("an intent was bound", {{"process", printable(params.process_id, 80)}, {"note", note}});
        return Started{.command = std::make_unique<HostRun>(*std::move(made)), .confined = bound->confined};
    });
    log::info("process/start", {{"process", printable(params.process_id, 80)},
                                {"thread", printable(params.thread_id, 80)},
                                {"call", printable(params.call_id, 80)},
                                {"sandbox", !started            ? "refused"
                                            : started->confined ? "yes"
                                                                : "no"},
                                {"why", started ? "" : printable(started.error().message, 300)}});
    co_return started;
}

Result<Bound> Executor::bind_files(const std::optional<Intent>& intent) const
{
    if (!intent) return bind_discovery(ceiling_, places_);
    return bind_intent(intent, {}, ceiling_, places_);
}

/// A process of a server that runs as root has ids of its own: it is a stranger to the host's files, but in a
/// mount the owner of what was mounted. Whoever touches files for it is the same.
std::optional<sys::FileCredentials> Executor::acting_ids(Bound& bound, const std::string& path)
{
    if (!bound.confined || ::geteuid() != 0) return std::nullopt;
    bound.acting = bound.rights_at(RealPaths{}.nearest(path));
    return sys::FileCredentials{.uid = bound.acting->first, .gid = bound.acting->second};
}

} // namespace berth::codex

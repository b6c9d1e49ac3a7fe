#include "backend/e2b/command.hpp"

#include <algorithm>

#include "base/strings.hpp"

namespace berth::e2b_client {

namespace {

using namespace std::chrono_literals;

constexpr auto kTime = 600s;
// A decoded word takes the place of the encoded one, one after the other, until all were.
constexpr std::string_view kDecodeAndRun =
    "n=$#; while [ $n -gt 0 ]; do d \"$1\"; shift; set -- \"$@\" \"$v\"; n=$((n-1)); done\n"
    "cd -- \"$1\" || exit 126; shift\n"
    "exec env -- \"$@\"\n";

bool is_text(std::string_view bytes) { return printable_utf8(bytes) == bytes; }

std::string lower(std::string_view text)
{
    std::string out(text);
    for (auto& c : out)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return out;
}

} // namespace

Result<CommandEnd> run_command(Envd& envd, const Session& session, const Command& command)
{
    e2b::StartRequest request;
    request.process.cmd = "/bin/sh";
    const auto words = scripted::shell_words(command);
    request.process.args.assign(words.begin() + 1, words.end());
    request.process.envs = {{"LC_ALL", "C"}};
    request.process.cwd = "/";
    request.stdin_open = false;
    scripted::CommandOutput output(command);
    std::optional<ExitStatus> status;
    const auto on_message = [&](std::string_view text) -> Status {
        BERTH_TRY(auto event, e2b::read_event(text));
        if (event.stream == e2b::Output::Stderr)
            output.err(event.bytes);
        else if (event.stream)
            BERTH_CHECK(output.out(event.bytes));
        if (event.ended) status = ExitStatus::from_wait(e2b::wait_status(event).value_or(-1));
        return {};
    };
    Cord cord;
    auto end = envd.stream(session, "process.Process/Start", e2b::start_request(request), command.user,
                           on_message, cord, kTime);
    if (status) return std::move(output).end(*status);
    if (!end.told) return std::unexpected(std::move(end.cut));
    if (!end.failure) return fail(Code::Unavailable, "a command of ours was lost");
    ExecSpec shell;
    shell.argv = {"/bin/sh"};
    return std::unexpected(start_error(*end.failure, shell));
}

e2b::StartRequest start_of(const ExecSpec& spec, const std::string& workdir)
{
    e2b::StartRequest out;
    out.tag = spec.id;
    out.stdin_open = spec.input == ExecSpec::Stdin::Open;
    if (spec.terminal) out.pty = e2b::PtySize{.columns = spec.terminal->columns, .rows = spec.terminal->rows};
    const std::string cwd = spec.cwd.empty() ? workdir : spec.cwd;
    auto env = spec.env;
    if (spec.terminal) env.try_emplace("TERM", "xterm-256color");
    const bool text =
        is_text(cwd) && std::ranges::all_of(spec.argv, is_text) &&
        std::ranges::all_of(env, [](const auto& one) { return is_text(one.first) && is_text(one.second); });
    if (text) {
        out.process.cmd = spec.argv.front();
        out.process.args.assign(spec.argv.begin() + 1, spec.argv.end());
        out.process.envs = std::move(env);
        if (!cwd.empty()) out.process.cwd = cwd;
        return out;
    }
    out.process.cmd = "/bin/sh";
    out.process.args = {"-c", std::string(scripted::prologue()) + std::string(kDecodeAndRun), "berth",
                        scripted::escape(cwd.empty() ? "." : cwd)};
    for (auto& [name, value] : env) {
        if (is_text(name) && is_text(value))
            out.process.envs[name] = value;
        else
            out.process.args.push_back(scripted::escape(fmt::format("{}={}", name, value)));
    }
    for (const auto& one : spec.argv) out.process.args.push_back(scripted::escape(one));
    return out;
}

Error start_error(const connect::Failure& failure, const ExecSpec& spec)
{
    Error out = connect::error_of(failure);
    out.message = printable(out.message, 300);
    if (failure.status == connect::Status::Unauthenticated) {
        out.code = Code::NotFound;
        out.message = fmt::format("no user '{}' in the sandbox", printable(spec.user, 60));
    }
    if (failure.status != connect::Status::InvalidArgument) return out;
    const auto text = lower(out.message);
    for (const std::string_view word : {"command not found", "executable file not found", "does not exist",
                                        "no such file or directory", "not found in"})
        if (text.find(word) != std::string::npos) out.code = Code::NotFound;
    for (const std::string_view word : {"cannot execute", "permission denied", "exec format error"})
        if (text.find(word) != std::string::npos) out.code = Code::Denied;
    return out;
}

} // namespace berth::e2b_client

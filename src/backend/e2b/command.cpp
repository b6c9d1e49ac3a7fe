#include "backend/e2b/command.hpp"

#include <algorithm>
#include <array>

#include "base/strings.hpp"

namespace berth::e2b_client {

namespace {

using namespace std::chrono_literals;

constexpr auto kTime = 600s;
constexpr std::size_t kMostKept = std::size_t{8} << 20;
constexpr std::size_t kLastWords = 4096;

constexpr std::string_view kPrologue = "d() { v=$(printf '%b.' \"$1\"); v=${v%.}; }\n";

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

struct Word {
    std::string_view text; ///< lower case
    Code code;
};

Code code_of_words(std::string_view words, Code otherwise)
{
    static constexpr std::array kWords{
        Word{"permission denied", Code::Denied},
        Word{"operation not permitted", Code::Denied},
        Word{"read-only file system", Code::Denied},
        Word{"no such file or directory", Code::NotFound},
        Word{"directory nonexistent", Code::NotFound}, // a shell's word for it
        Word{"not a directory", Code::Invalid},
        Word{"is a directory", Code::Invalid},
        Word{"not a regular file", Code::Invalid},
        Word{"file name too long", Code::Invalid},
        Word{"too many levels of symbolic links", Code::Invalid},
        Word{"too large", Code::Invalid},
        Word{"file exists", Code::Conflict},
        Word{"directory not empty", Code::Conflict},
        Word{"device or resource busy", Code::Conflict},
        Word{"no space left on device", Code::Exhausted},
        Word{"disk quota exceeded", Code::Exhausted},
    };
    const auto text = lower(words);
    for (const auto& word : kWords)
        if (text.find(word.text) != std::string::npos) return word.code;
    return otherwise;
}

} // namespace

std::string escape(std::string_view bytes)
{
    std::string out;
    for (const char c : bytes) {
        if (c > ' ' && c < 0x7f && c != '\\' && c != '%')
            out += c;
        else
            out += fmt::format("\\0{:03o}", static_cast<unsigned char>(c));
    }
    return out;
}

Error error_of_words(std::string_view words, std::string_view what)
{
    std::string_view last = words;
    while (last.ends_with('\n')) last.remove_suffix(1);
    if (const auto at = last.rfind('\n'); at != std::string_view::npos) last = last.substr(at + 1);
    Error out;
    out.code = code_of_words(words, Code::Internal);
    out.message = fmt::format("{}: {}", what, last.empty() ? "failed" : printable(last, 300));
    return out;
}

Result<CommandEnd> run_command(Envd& envd, const Session& session, const Command& command)
{
    e2b::StartRequest request;
    request.process.cmd = "/bin/sh";
    request.process.args = {"-c", std::string(kPrologue) + command.script, "berth"};
    for (const auto& one : command.arguments) request.process.args.push_back(escape(one));
    request.process.envs = {{"LC_ALL", "C"}};
    request.process.cwd = "/";
    request.stdin_open = false;
    CommandEnd out;
    bool ended = false;
    Error refused;
    const auto on_message = [&](std::string_view text) -> Status {
        BERTH_TRY(auto event, e2b::read_event(text));
        if (event.stream == e2b::Output::Stderr) {
            out.err += event.bytes;
            if (out.err.size() > 2 * kLastWords) out.err.erase(0, out.err.size() - kLastWords);
        } else if (event.stream && command.out) {
            return command.out(event.bytes);
        } else if (event.stream) {
            if (out.out.size() + event.bytes.size() > kMostKept)
                return fail(Code::Exhausted, "a command of ours prints without end");
            out.out += event.bytes;
        }
        if (event.ended) {
            ended = true;
            out.status = ExitStatus::from_wait(e2b::wait_status(event).value_or(-1));
        }
        return {};
    };
    Cord cord;
    auto end = envd.stream(session, "process.Process/Start", e2b::start_request(request), command.user,
                           on_message, cord, kTime);
    if (ended) return out;
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
    out.process.args = {"-c", std::string(kPrologue) + std::string(kDecodeAndRun), "berth",
                        escape(cwd.empty() ? "." : cwd)};
    for (auto& [name, value] : env) {
        if (is_text(name) && is_text(value))
            out.process.envs[name] = value;
        else
            out.process.args.push_back(escape(fmt::format("{}={}", name, value)));
    }
    for (const auto& one : spec.argv) out.process.args.push_back(escape(one));
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

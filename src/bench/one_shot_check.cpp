#include "bench/one_shot_check.hpp"

#include <unistd.h>

#include <csignal>

#include "base/ids.hpp"
#include "base/strings.hpp"

namespace berth::bench {

Result<local::RunOutcome> one_shot(Context& context, const SandboxSpec& spec,
                                   const std::vector<std::string>& argv, local::Pools* pools,
                                   std::string* output)
{
    ExecSpec exec;
    exec.id = make_exec_id(system_clock());
    exec.argv = argv;
    local::RunStreams streams;
    streams.out = streams.err = -1;
    if (output != nullptr)
        streams.on_event = [output](const ExecEvent& event) {
            if (event.kind == ExecEvent::Kind::Stdout) *output += event.bytes;
        };
    auto outcome = local::run_one_shot(context.state(), spec, exec, streams, {}, pools);
    if (outcome && (outcome->status.signal() == SIGINT || outcome->status.signal() == SIGTERM))
        context.interrupt();
    return outcome;
}

Token make_token() { return {.path = "/tmp/berth-bench-" + random_hex(8), .text = random_hex(16)}; }

Status check_invisible(const Token& token)
{
    if (::access(token.path.c_str(), F_OK) == 0)
        return fail(Code::Internal, "{} was written in a sandbox and exists outside", token.path);
    return {};
}

Status check_one_shot(Context& context)
{
    const Token token = make_token();
    std::string output;
    const std::string script =
        fmt::format("echo {} > {} && cat {} && exit 7", token.text, token.path, token.path);
    BERTH_TRY(const auto outcome,
              one_shot(context, context.spec(), {"/bin/sh", "-c", script}, nullptr, &output));
    if (output != token.text + "\n")
        return fail(Code::Internal, "a file written in a sandbox reads back as '{}'", printable(output));
    if (outcome.status.code() != 7)
        return fail(Code::Internal, "'exit 7' in a sandbox ended with {}", to_string(outcome.status));
    return check_invisible(token);
}

} // namespace berth::bench

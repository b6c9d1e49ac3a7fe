#include <CLI/CLI.hpp>

#include "base/encoding.hpp"
#include "cli/exec_options.hpp"
#include "cli/input_options.hpp"
#include "cli/remote.hpp"

namespace berth::cli::remote {

namespace {

Result<int> run(Server& server, const InputOptions& o)
{
    BERTH_TRY(const auto wish, read_input(o));
    BERTH_TRY(const auto sandbox, server.path_of(o.ref));
    BERTH_TRY(const auto id, exec_of(server, sandbox, o.exec));
    json::Object body;
    if (!wish.input.bytes.empty()) body["input_base64"] = base64_encode(wish.input.bytes);
    if (wish.input.write) body["write"] = *wish.input.write;
    body["close"] = wish.input.close;
    body["next_seq"] = wish.next;
    if (wish.yield.time)
        body["yield_ms"] = std::chrono::ceil<std::chrono::milliseconds>(*wish.yield.time).count();
    if (wish.yield.max_tokens) body["max_output_tokens"] = *wish.yield.max_tokens;
    const std::string path = fmt::format("{}/execs/{}/yield", sandbox, http_client::url_encode(id));
    BERTH_TRY(const auto told, server.call("POST", path, json::dump(body)));
    return tell_turn(o.common, told, wish.input.bytes.size());
}

} // namespace

int input_verb(Server& server, int argc, char** argv)
{
    CLI::App app(
        "Type something into a command that runs on the server, or only look; wait a while, and return\n"
        "with what it printed, as with berth input here.\n\n"
        "Example:\n  berth input mybox exec_01jd7f3 --enter ls --server http://127.0.0.1:7600\n",
        "berth input");
    InputOptions o;
    add_input_options(app, o);
    if (const auto done = parse(app, o.common, argc, argv, kOwnFailure)) return *done;
    const auto code = run(server, o);
    return code ? *code : report(code.error(), o.common, kOwnFailure);
}

} // namespace berth::cli::remote

#include <unistd.h>

#include <algorithm>
#include <iostream>

#include <CLI/CLI.hpp>

#include "base/json.hpp"
#include "base/strings.hpp"
#include "cli/attended_exec.hpp"
#include "cli/exec_options.hpp"
#include "cli/exec_yield.hpp"
#include "cli/mind.hpp"
#include "cli/session.hpp"
#include "cli/verbs.hpp"

namespace berth::cli {

namespace {

struct Options {
    Common common;
    ExecOptions exec;
    YieldOptions yield;
    bool detach = false;
    std::string ref;
    std::vector<std::string> command;
};

Result<int> run_detached(Berth& berth, const Options& o, const ExecSpec& exec)
{
    auto& lifecycle = berth.lifecycle();
    BERTH_TRY(const auto acquired, berth.run(lifecycle.use(o.ref)));
    BERTH_CHECK(berth.run(lifecycle.exec(acquired.record, exec)));
    if (exec.timeout) leave_minder(berth.data(), acquired.record.id(), exec.id);
    if (o.common.json) {
        std::cout << exec_line(acquired, exec.id) << std::flush;
        return 0;
    }
    say_unless_attached(acquired);
    std::cout << exec.id << std::endl;
    return 0;
}

Result<int> run(const Options& o)
{
    if (o.command.empty()) return fail(Code::Invalid, "no command: berth exec {} -- CMD…", o.ref);
    if (o.detach && o.yield.asked())
        return fail(Code::Invalid, "--detach waits for nothing, --yield does: choose one");
    const auto company = o.detach || o.yield.asked() ? Company::Leaves : Company::Stays;
    BERTH_TRY(auto exec, exec_spec(o.exec, o.command, company));
    BERTH_TRY(const auto berth, open_berth(o.common));
    if (o.detach) return run_detached(*berth, o, exec);
    if (o.yield.asked()) return run_yielding(*berth, o.common, o.ref, std::move(exec), o.yield);
    return attended_exec(*berth, o.common, o.ref, std::move(exec));
}

} // namespace

int exec_verb(int argc, char** argv)
{
    CLI::App app(
        "Run a command in a sandbox that exists, named by id, unique prefix, name or key; one that is\n"
        "stopped is started. Its exit code is ours: 128+n for a signal, 124 for our timeout, 125 when\n"
        "berth itself failed, 126/127 as a shell has them. The command outlives us: see berth logs.\n\n"
        "Example:\n"
        "  berth exec mybox -- make test\n",
        "berth exec");
    Options options;
    app.add_option("sandbox", options.ref, "The sandbox")->type_name("REF")->required();
    app.add_option("command", options.command, "The command, after --")->type_name("CMD...");
    add_exec_options(app, options.exec);
    app.add_flag("-d,--detach", options.detach, "Print the id of the exec and return at once");
    add_yield_options(app, options.yield);
    add_common(app, options.common);
    if (gathering(app)) return 0;
    if (const auto done = parse_with_command(app, options.common, options.ref, options.command, argc, argv))
        return *done;
    const auto code = run(options);
    return code ? *code : report(code.error(), options.common, start_failure_code(code.error()));
}

} // namespace berth::cli

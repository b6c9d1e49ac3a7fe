#include <csignal>

#include <CLI/CLI.hpp>

#include "base/strings.hpp"
#include "cli/exec_options.hpp"
#include "cli/session.hpp"
#include "cli/verbs.hpp"

namespace berth::cli {

namespace {

struct KillOptions {
    Common common;
    std::string ref;
    std::string exec;
    std::string signal;
};

Result<int> kill(const KillOptions& o)
{
    std::optional<int> signo;
    if (!o.signal.empty()) {
        BERTH_TRY(signo, parse_signal(o.signal));
    }
    BERTH_TRY(const auto berth, open_berth(o.common, Room::Frees));
    auto& lifecycle = berth->lifecycle();
    BERTH_TRY(const auto record, berth->run(lifecycle.find(o.ref)));
    BERTH_TRY(const auto exec, berth->run(lifecycle.find_exec(record, o.exec)));
    if (exec.ended != WallTime{})
        return fail(Code::Conflict, "{} has ended: {}", exec.id, printable(exec.outcome, 80));
    BERTH_TRY(auto* const backend, berth->backend(record.backend));
    const auto handle = Lifecycle::handle(record);
    if (signo)
        BERTH_CHECK(berth->run(backend->signal(handle, exec.id, *signo)));
    else
        BERTH_CHECK(berth->run(backend->kill(handle, exec.id)));
    if (!o.common.json) return print(exec.id + "\n");
    json::Object out;
    out["id"] = exec.id;
    out["sandbox"] = record.id();
    out["signal"] = signo.value_or(SIGKILL);
    return print_document(out);
}

} // namespace

int kill_verb(int argc, char** argv)
{
    CLI::App app("End one command of a sandbox: KILL to it and to everything it started. With --signal that\n"
                 "signal goes to the command and its group instead, which may do with it what it likes.\n\n"
                 "Example:\n  berth kill demo exec_01jd7f3\n  berth kill demo exec_01jd7f3 --signal TERM\n",
                 "berth kill");
    KillOptions o;
    app.add_option("sandbox", o.ref, "The sandbox: id, unique prefix, name or key")
        ->type_name("REF")
        ->required();
    app.add_option("exec", o.exec, "The exec: id or unique prefix, as berth inspect shows them")
        ->type_name("EXEC")
        ->required();
    app.add_option("-s,--signal", o.signal, "A name like TERM, or a number")->type_name("SIGNAL");
    add_common(app, o.common);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, o.common, argc, argv)) return *done;
    const auto code = kill(o);
    return code ? *code : report(code.error(), o.common);
}

} // namespace berth::cli

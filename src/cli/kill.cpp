#include <CLI/CLI.hpp>

#include "base/strings.hpp"
#include "cli/exec_options.hpp"
#include "cli/kill_options.hpp"
#include "cli/session.hpp"
#include "cli/verbs.hpp"
#include "lifecycle/documents.hpp"

namespace berth::cli {

namespace {

Result<int> kill(const KillOptions& o)
{
    BERTH_TRY(const auto how, read_kill(o));
    BERTH_TRY(const auto berth, open_berth(o.common, Room::Frees));
    auto& lifecycle = berth->lifecycle();
    BERTH_TRY(const auto record, berth->run(lifecycle.find(o.ref)));
    BERTH_TRY(auto exec, berth->run(lifecycle.find_exec(record, o.exec)));
    json::Object out;
    out["id"] = exec.id;
    out["sandbox"] = record.id();
    if (how.signal) {
        if (exec.ended != WallTime{})
            return fail(Code::Conflict, "{} has ended: {}", exec.id, printable(exec.outcome, 80));
        BERTH_TRY(auto* const backend, berth->backend(record.backend));
        BERTH_CHECK(berth->run(backend->signal(Lifecycle::handle(record), exec.id, *how.signal)));
        out["signal"] = *how.signal;
    } else {
        BERTH_TRY(exec, berth->run(cancel_exec(lifecycle, record, std::move(exec), how.grace)));
        out["outcome"] = documents::text_or_null(exec.outcome);
    }
    return o.common.json ? print_document(out) : print(exec.id + "\n");
}

} // namespace

void add_kill_options(CLI::App& app, KillOptions& o)
{
    app.add_option("sandbox", o.ref, "The sandbox: id, unique prefix, name or key")
        ->type_name("REF")
        ->required();
    app.add_option("exec", o.exec, "The exec: id or unique prefix, as berth inspect shows them")
        ->type_name("EXEC")
        ->required();
    app.add_option("--grace", o.grace, "Time between TERM and KILL, up to 1m (default 5s; 0s: KILL at once)")
        ->type_name("TIME");
    app.add_option("-s,--signal", o.signal, "Only send this: a name like TERM, or a number")
        ->type_name("SIGNAL");
    add_common(app, o.common);
}

Result<KillWish> read_kill(const KillOptions& o)
{
    KillWish out;
    if (!o.signal.empty()) {
        if (!o.grace.empty())
            return fail(Code::Invalid, "--signal sends one signal and waits for nothing: leave --grace out");
        BERTH_TRY(out.signal, parse_signal(o.signal));
    }
    if (!o.grace.empty()) {
        BERTH_TRY(const auto grace, parse_duration(o.grace));
        if (grace < grace.zero() || grace > kLongestCancelGrace)
            return fail(Code::Invalid, "--grace must be from 0s to 1m");
        out.grace = std::chrono::ceil<std::chrono::milliseconds>(grace);
    }
    return out;
}

int kill_verb(int argc, char** argv)
{
    CLI::App app(
        "End one command of a sandbox: TERM to it and its group, and after a grace KILL to it and to\n"
        "everything it started. Returns when it has ended; one that has ended already is success. With\n"
        "--signal only that signal is sent, and the command may do with it what it likes.\n\n"
        "Example:\n  berth kill demo exec_01jd7f3\n  berth kill demo exec_01jd7f3 --grace 0s\n"
        "  berth kill demo exec_01jd7f3 --signal USR1\n",
        "berth kill");
    KillOptions o;
    add_kill_options(app, o);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, o.common, argc, argv)) return *done;
    const auto code = kill(o);
    return code ? *code : report(code.error(), o.common);
}

} // namespace berth::cli

// The table that the server routes by.

#include "server/own/api.hpp"

namespace berth::own {

Api::Api(gate::Ground& ground) : ground_(ground)
{
    const auto add = [&](const char* method, const char* pattern, Work work, const char* answers,
                         const char* summary, Words words = {}) {
        router_.add(
            method, pattern,
            Handler{
                .work = work, .summary = summary, .answers = split(answers, ' '), .words = std::move(words)});
    };
    const std::string file = "path! user";
    add("GET", "/openapi.json", &Api::describe_all, "200", "This document", {.answer = "object"});
    add("POST", "/v1/sandboxes", &Api::create, "201 200", "Make a sandbox, or find the one of a key",
        {.body = "NewSandbox", .answer = "AcquiredSandbox"});
    add("GET", "/v1/sandboxes", &Api::list, "200", "List sandboxes", {.answer = "SandboxList"});
    add("GET", "/v1/sandboxes/{sandbox}", &Api::get, "200", "One sandbox, after its backend was asked",
        {.answer = "SandboxWithSpec"});
    add("DELETE", "/v1/sandboxes/{sandbox}", &Api::destroy, "200", "Destroy a sandbox",
        {.answer = "Sandbox"});
    add("POST", "/v1/sandboxes/{sandbox}/start", &Api::start, "200", "Make it usable, whatever that takes",
        {.answer = "AcquiredSandbox"});
    add("POST", "/v1/sandboxes/{sandbox}/stop", &Api::stop, "200", "End its processes, keep its files",
        {.answer = "Sandbox"});
    add("POST", "/v1/sandboxes/{sandbox}/pause", &Api::pause, "200", "Freeze it with its memory",
        {.answer = "Sandbox"});
    add("POST", "/v1/sandboxes/{sandbox}/resume", &Api::resume, "200", "Let a paused one go on",
        {.answer = "Sandbox"});
    add("POST", "/v1/sandboxes/{sandbox}/fork", &Api::fork, "201", "Make sandboxes from its files",
        {.body = "ForkWish", .answer = "Forks"});
    add("POST", "/v1/sandboxes/{sandbox}/snapshots", &Api::take_snapshot, "201", "Keep its files",
        {.body = "SnapshotWish", .answer = "TakenSnapshot"});
    add("POST", "/v1/sandboxes/{sandbox}/prove", &Api::prove, "201",
        "Try its policy out from inside; the receipt says whether it holds",
        {.body = "Nothing", .answer = "Receipt"});
    add("GET", "/v1/sandboxes/{sandbox}/receipts", &Api::receipts, "200", "Its receipts, oldest first",
        {.answer = "ReceiptList"});
    add("GET", "/v1/snapshots", &Api::list_snapshots, "200", "List snapshots, newest first",
        {.answer = "SnapshotList"});
    add("GET", "/v1/snapshots/{snapshot}", &Api::get_snapshot, "200", "One snapshot", {.answer = "Snapshot"});
    add("POST", "/v1/snapshots/{snapshot}/restore", &Api::restore, "201", "Make a sandbox from a snapshot",
        {.body = "RestoreWish", .answer = "AcquiredSandbox"});
    add("DELETE", "/v1/snapshots/{snapshot}", &Api::remove_snapshot, "204", "Remove a snapshot");
    add("GET", "/v1/events", &Api::events, "200",
        "What happened, after a sequence number; with follow=true as a stream (text/event-stream) that can "
        "be resumed by Last-Event-ID",
        {.answer = "LedgerPage", .events = "LedgerEvent", .query = "after sandbox type follow"});
    add("GET", "/v1/policies", &Api::list_policies, "200", "Names of the presets", {.answer = "PresetList"});
    add("POST", "/v1/policies/check", &Api::check_policy, "200",
        "The whole document that a policy stands for; 400 says where it is not valid",
        {.body = "PolicyWish", .answer = "CheckedPolicy"});
    add("POST", "/v1/policies/explain", &Api::explain_policy, "200",
        "Where and how each rule of a policy is held here", {.body = "PolicyWish", .answer = "Explanation"});
    add("GET", "/v1/policies/{policy}", &Api::show_policy, "200", "A preset as a whole document",
        {.answer = "object"});
    add("GET", "/v1/sandboxes/{sandbox}/policy", &Api::sandbox_policy, "200",
        "Its policy, and where and how each rule is held", {.answer = "Explanation"});
    add("POST", "/v1/sandboxes/{sandbox}/execs", &Api::start_exec, "201", "Start a command",
        {.body = "NewExec", .answer = "StartedExec"});
    add("GET", "/v1/sandboxes/{sandbox}/execs", &Api::list_execs, "200", "List commands, oldest first",
        {.answer = "ExecList"});
    add("GET", "/v1/sandboxes/{sandbox}/execs/{exec}", &Api::get_exec, "200", "One command",
        {.answer = "Exec"});
    add("GET", "/v1/sandboxes/{sandbox}/execs/{exec}/events", &Api::exec_events, "200",
        "Its events as a stream (text/event-stream) that can be resumed by Last-Event-ID",
        {.events = "ExecEvent", .query = "after"});
    add("GET", "/v1/sandboxes/{sandbox}/execs/{exec}/stream", &Api::stream_exec, "101",
        "Its events (ExecEvent), input, signals and sizes (StreamMessage) on one WebSocket that can be "
        "resumed by after=N",
        {.query = "after"});
    add("POST", "/v1/sandboxes/{sandbox}/execs/{exec}/yield", &Api::yield_exec, "200",
        "A turn: types, waits a while and tells what it printed; it runs on",
        {.body = "Turn", .answer = "Yielded"});
    add("POST", "/v1/sandboxes/{sandbox}/execs/{exec}/input", &Api::write_input, "200",
        "The body to its input; the same write id writes nothing twice",
        {.body = "bytes", .answer = "TakenInput", .query = "write"});
    add("DELETE", "/v1/sandboxes/{sandbox}/execs/{exec}/input", &Api::close_input, "204", "Close its input",
        {.query = "write"});
    add("POST", "/v1/sandboxes/{sandbox}/execs/{exec}/signal", &Api::send_signal, "204", "Send it a signal",
        {.body = "Signal"});
    add("POST", "/v1/sandboxes/{sandbox}/execs/{exec}/size", &Api::resize, "204", "Resize its terminal",
        {.body = "TerminalSize"});
    add("DELETE", "/v1/sandboxes/{sandbox}/execs/{exec}", &Api::kill_exec, "204",
        "End it: TERM, and after grace_seconds (5) KILL to it and everything it started; answers when it has "
        "ended",
        {.query = "grace_seconds"});
    add("GET", "/v1/sandboxes/{sandbox}/files", &Api::read_file, "200", "The contents of a file",
        {.answer = "bytes", .query = file});
    add("PUT", "/v1/sandboxes/{sandbox}/files", &Api::write_file, "204", "Replace or make a file",
        {.body = "bytes", .query = file + " mode"});
    add("DELETE", "/v1/sandboxes/{sandbox}/files", &Api::remove_file, "204", "Remove a file or a tree",
        {.query = file + " tree"});
    add("GET", "/v1/sandboxes/{sandbox}/stat", &Api::stat_file, "200", "What a path leads to",
        {.answer = "File", .query = file});
    add("GET", "/v1/sandboxes/{sandbox}/directory", &Api::list_files, "200", "List a directory",
        {.answer = "Directory", .query = file});
    add("PUT", "/v1/sandboxes/{sandbox}/directory", &Api::make_dir, "204", "Make a directory and its parents",
        {.query = file});
    add("GET", "/v1/sandboxes/{sandbox}/archive", &Api::read_tree, "200",
        "A directory with all below it, or one file, as a tar", {.answer = "tar", .query = file});
    add("PUT", "/v1/sandboxes/{sandbox}/archive", &Api::write_tree, "204",
        "Unpack a tar below a directory; nothing is written of one that is cut off or hostile",
        {.body = "tar", .query = file});
    add("GET", "/v1/sandboxes/{sandbox}/ports/{port}", &Api::reach_port, "101",
        "A connection to a port of it as bytes, with Upgrade: tcp; else a request to the program there");
    for (const char* const method : {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})
        add(method, "/v1/sandboxes/{sandbox}/ports/{port}/{path...}", &Api::reach_port, "200",
            "A request to the program that listens on a port of it, WebSocket too");
}

} // namespace berth::own

// Every document of the API. tests/server/own_api.py holds each answer of the server against it.

#include "server/own/shapes.hpp"

namespace berth::own {

namespace {

using Members = std::vector<Member>;

Members operator+(Members first, const Members& more)
{
    first.insert(first.end(), more.begin(), more.end());
    return first;
}

const Members kSandbox{
    {"id", "string", "sbx_…"},
    {"name", "string|null", ""},
    {"key", "string|null", "with the tenant in front: v1:TENANT:KEY"},
    {"backend", "string", ""},
    {"native", "string|null", "its backend's own name for the instance"},
    {"attachment", "object|null", "of one that somebody else made"},
    {"state", "string", "creating, running, paused, stopped, lost, destroyed, failed, …"},
    {"generation", "integer", "how many instances it has had"},
    {"template", "string", ""},
    {"labels", "{string}", ""},
    {"idle_seconds", "integer|null", ""},
    {"on_idle", "string", "stop, snapshot_then_stop or destroy"},
    {"lifetime_seconds", "integer|null", ""},
    {"latest_snapshot", "string|null", ""},
    {"superseded_by", "string|null", "the sandbox that has its key now"},
    {"failure", "string|null", ""},
    {"damage", "string?", "what of its record cannot be read"},
    {"spec_hash", "string|null", ""},
    {"created", "time|null", ""},
    {"changed", "time|null", ""},
    {"last_used", "time|null", ""},
    {"due", "time|null", "when it is idle for too long, or too old"},
};

const Members kOutcome{
    {"outcome", "string", "fresh, attached, started or restored"},
    {"snapshot", "string|null", "restored: from which"},
    {"lost_seconds", "number|null", "restored: how much life came after the snapshot"},
    {"unsynced_since", "time|null", "started: the machine went down; what came after may be damaged"},
    {"notes", "[string]", ""},
};

const Members kSnapshot{
    {"id", "string", "snap_…"},
    {"sandbox", "string", ""},
    {"kind", "string", ""},
    {"backend", "string", ""},
    {"parent", "string|null", ""},
    {"note", "string|null", ""},
    {"bytes", "integer|null", "null while nobody has counted"},
    {"sha256", "string|null", ""},
    {"live_copy", "boolean", "commands ran while it was taken"},
    {"created", "time|null", ""},
};

const Members kHow{
    {"status", "string?", "how it ended, in words"},
    {"timed_out", "boolean?", ""},
    {"code", "integer?", "its exit code"},
    {"signal", "integer?", "that ended it"},
};

const Members kTerminal{{"rows", "integer", ""}, {"columns", "integer", ""}};

std::vector<Shape> taken_ones()
{
    return {
        {"NewSandbox",
         true,
         {{"template", "string?", "host is the only one"},
          {"key", "string?", "the sandbox of this key, or a new one"},
          {"env", "{string}?", ""},
          {"user", "string?", ""},
          {"workdir", "string?", ""},
          {"labels", "{string}?", ""},
          {"policy", "policy?", "a preset's name or a policy document, without network host and devices"},
          {"idle_seconds", "integer?", ""},
          {"on_idle", "string?", "stop, snapshot_then_stop or destroy"},
          {"lifetime_seconds", "integer?", ""},
          {"prove", "boolean?", "hand it out only when its policy holds"}}},
        {"Nothing", true, {}},
        {"ForkWish", true, {{"count", "integer?", "1 to 100"}}},
        {"SnapshotWish", true, {{"note", "string?", ""}}},
        {"RestoreWish", true, {{"backend", "string?", "that of the snapshot, or the server's"}}},
        {"PolicyWish", true, {{"policy", "policy?", ""}}},
        {"NewExec",
         true,
         {{"argv", "[string]", ""},
          {"env", "{string}?", ""},
          {"workdir", "string?", ""},
          {"user", "string?", ""},
          {"stdin", "boolean?", "its input is open until it is closed"},
          {"terminal", "TerminalSize?", "it gets a terminal of this size"},
          {"timeout_seconds", "number?", ""}}},
        {"TerminalSize", true, kTerminal},
        {"Signal", true, {{"signal", "integer", "its number"}}},
        {"Turn",
         true,
         {{"input", "string?", ""},
          {"input_base64", "bytes?", "instead of input"},
          {"write", "integer?", "the same number again writes nothing twice"},
          {"close", "boolean?", "the end of its input"},
          {"next_seq", "integer?", "that of the last answer; else from the beginning"},
          {"yield_ms", "integer?", "how long to wait at most"},
          {"max_output_tokens", "integer?", ""}}},
        {"StreamMessage",
         true,
         {{"input", "bytes?", ""},
          {"write", "integer?", "the same number again writes nothing twice"},
          {"close_input", "boolean?", ""},
          {"resize", "TerminalSize?", ""},
          {"signal", "integer?", ""},
          {"kill", "boolean?", ""}}},
    };
}

std::vector<Shape> given_ones()
{
    return {
        {"Sandbox", false, kSandbox},
        {"SandboxWithSpec", false, kSandbox + Members{{"spec", "object", "what was asked for"}}},
        {"AcquiredSandbox", false, kSandbox + kOutcome},
        {"SandboxList", false, {{"sandboxes", "[Sandbox]", ""}}},
        {"Forks",
         false,
         {{"sandboxes", "[Sandbox]", ""}, {"live_copy", "boolean", ""}, {"notes", "[string]", ""}}},
        {"Snapshot", false, kSnapshot},
        {"TakenSnapshot", false, kSnapshot + Members{{"notes", "[string]", ""}}},
        {"SnapshotList", false, {{"snapshots", "[Snapshot]", ""}}},
        {"StartedExec", false, Members{{"id", "string", "exec_…"}, {"sandbox", "string", ""}} + kOutcome},
        {"Exec",
         false,
         {{"id", "string", "exec_…"},
          {"generation", "integer", "of the sandbox"},
          {"argv", "[string]", ""},
          {"workdir", "string|null", ""},
          {"user", "string|null", ""},
          {"started", "time|null", ""},
          {"ended", "time|null", ""},
          {"running", "boolean", ""},
          {"outcome", "string|null", "exit N, signal N, timed out, signal 9, or unknown"},
          {"timeout_seconds", "number|null", ""}}},
        {"ExecList", false, {{"execs", "[Exec]", ""}}},
        {"ExecEvent", false,
         Members{{"event", "string", "start, stdout, stderr, pty, exit, closed or gap"},
                 {"seq", "integer", ""},
                 {"time_ns", "integer", "since 1970"},
                 {"data", "bytes?", "of stdout, stderr and pty"},
                 {"bytes", "integer?", "of a gap: how many are missing"}} +
             kHow},
        {"Yielded", false,
         Members{{"exec", "string", ""},
                 {"sandbox", "string", ""},
                 {"running", "boolean", ""},
                 {"taken", "integer?", "bytes of the input"},
                 {"output", "string", ""},
                 {"output_base64", "bytes", ""},
                 {"next_seq", "integer", "where the next turn goes on"},
                 {"missing_bytes", "integer?", ""},
                 {"original_tokens", "integer?", "before it was cut"},
                 {"waited_ns", "integer", ""}} +
             kHow},
        {"TakenInput", false, {{"taken", "integer", "may be less than was sent"}, {"write", "integer", ""}}},
        {"File",
         false,
         {{"name", "string", ""},
          {"kind", "string", "file, directory, symlink or other"},
          {"size", "integer", ""},
          {"mode", "string", "octal"},
          {"uid", "integer", ""},
          {"gid", "integer", ""},
          {"modified", "time", ""},
          {"target", "string|null", "of a symlink"}}},
        {"Directory", false, {{"entries", "[File]", ""}}},
        {"LedgerEvent",
         false,
         {{"sequence", "integer", ""},
          {"time", "time|null", ""},
          {"sandbox", "string|null", ""},
          {"type", "string", ""},
          {"data", "object", ""}}},
        {"LedgerPage",
         false,
         {{"events", "[LedgerEvent]", ""},
          {"after", "integer", "where to go on"},
          {"more", "boolean", "there is more already"}}},
        {"PresetList", false, {{"presets", "[string]", ""}}},
        {"CheckedPolicy",
         false,
         {{"valid", "boolean", ""}, {"policy", "object", "the whole document that it stands for"}}},
        {"Rule",
         false,
         {{"rule", "string", ""},
          {"feature", "string", ""},
          {"tier", "string", "outside, vendor, inside or none"},
          {"how", "string", "the mechanism, or what would help"},
          {"held", "boolean", ""},
          {"refused", "boolean", "a sandbox with it is not made"}}},
        {"Explanation",
         false,
         {{"rules", "[Rule]", ""},
          {"admitted", "boolean", "all of it is held"},
          {"backend", "string", ""},
          {"policy", "object?", "of a sandbox"}}},
        {"Promise",
         false,
         {{"rule", "string", ""},
          {"tier", "string", "where the backend says it is held"},
          {"how", "string", "by what"}}},
        {"Probe",
         false,
         {{"rule", "string", ""},
          {"probe", "string", ""},
          {"must", "string", "fail or pass"},
          {"user", "string", "as whom it ran"},
          {"verdict", "string", "held, not_held, unclear or absent"},
          {"sure", "boolean", "nothing but the wall explains it"},
          {"saw", "string", ""}}},
        {"Untried", false, {{"rule", "string", ""}, {"why", "string", ""}}},
        {"Receipt",
         false,
         {{"id", "string", "rcpt_…"},
          {"sandbox", "string", ""},
          {"generation", "integer", ""},
          {"backend", "string", ""},
          {"policy", "string", ""},
          {"policy_hash", "string", ""},
          {"kernel", "string", ""},
          {"time", "time", ""},
          {"held", "boolean", ""},
          {"rules", "[Promise]", ""},
          {"probes", "[Probe]", ""},
          {"untried", "[Untried]", ""}}},
        {"ReceiptList", false, {{"receipts", "[Receipt]", "the newest hundred, the oldest first"}}},
        {"ErrorWords",
         false,
         {{"code", "string", ""}, {"message", "string", ""}, {"trail", "[string]", "the innermost first"}}},
        {"Error", false, {{"error", "ErrorWords", ""}}},
    };
}

} // namespace

const std::vector<Shape>& shapes()
{
    static const std::vector<Shape> all = [] {
        auto out = taken_ones();
        for (auto& one : given_ones()) out.push_back(std::move(one));
        return out;
    }();
    return all;
}

} // namespace berth::own

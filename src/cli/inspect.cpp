#include <CLI/CLI.hpp>

#include "base/brief.hpp"
#include "base/strings.hpp"
#include "cli/record_json.hpp"
#include "cli/session.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"
#include "core/admit.hpp"
#include "core/spec_json.hpp"
#include "lifecycle/proving.hpp"

namespace berth::cli {

namespace {

/// Everything that is known of one sandbox.
struct Known {
    SandboxRecord record;
    Result<Found> instance = Found{}; ///< what the backend says
    std::vector<ExecRecord> execs;
    std::vector<SnapshotRecord> snapshots;
    std::vector<policy::Explained> rules;
    json::Object proof; ///< the newest receipt, without its probes; empty: none
};

std::string_view to_string(Health health)
{
    switch (health) {
    case Health::Healthy: return "healthy";
    case Health::Unresponsive: return "unresponsive";
    case Health::Gone: return "gone";
    }
    return "gone";
}

/// A backend that cannot be asked is part of the answer, not the end of it.
Result<Known> gather(const Common& common, const std::string& ref)
{
    BERTH_TRY(const auto berth, open_berth(common, Room::Reads));
    auto& lifecycle = berth->lifecycle();
    Known known;
    BERTH_TRY(known.record, berth->run(lifecycle.find(ref)));
    const std::string id = known.record.id();
    const auto backend = berth->backend(known.record.backend);
    if (backend) {
        const auto holds = (*backend)->capabilities().holds;
        known.rules = policy::explain(policy::demands(known.record.spec.policy, accepted_tier(holds)), holds);
        known.instance = berth->run((*backend)->inspect(Lifecycle::handle(known.record)));
        if (known.instance && known.record.live()) {
            // What cannot be recorded is no reason to tell nothing.
            if (auto seen = berth->run(lifecycle.refresh(id)); seen)
                known.record = *std::move(seen);
            else
                say(seen.error().line());
            // What ended while nobody looked is told as ended.
            if (auto settled = berth->run(lifecycle.settle_execs(known.record)); !settled)
                say(settled.error().line());
        }
    } else {
        known.instance = std::unexpected(backend.error());
    }
    BERTH_TRY(known.execs, berth->store().execs(id, false));
    BERTH_TRY(known.snapshots, berth->store().snapshots(id));
    std::erase_if(known.snapshots, [](const auto& one) { return one.internal; });
    BlockingPool pool(1);
    Proving proving(lifecycle, pool, berth->data());
    BERTH_TRY(auto receipts, berth->run(proving.receipts(id)));
    if (!receipts.empty()) known.proof = std::move(receipts.back());
    for (const char* name : {"probes", "untried", "sandbox", "backend"}) known.proof.erase(name);
    return known;
}

/// The spec as it was asked for. Values of the environment are often secrets: without a word to the
/// contrary each is null. Where the host keeps a volume was never asked for.
json::Object spec_of(const SandboxRecord& record, bool show_env)
{
    SandboxSpec spec = record.spec;
    for (auto& volume : spec.volumes) volume.source.clear();
    json::Object out = to_json(spec);
    if (show_env) return out;
    json::Object env;
    for (const auto& [name, value] : record.spec.env) env[name] = nullptr;
    out["env"] = std::move(env);
    return out;
}

json::Object document_of(const Known& known, bool show_env)
{
    json::Object out = record_json(known.record);
    json::Object instance;
    if (known.instance) {
        instance["health"] = to_string(known.instance->health);
        instance["state"] = berth::to_string(known.instance->state);
        instance["paused_seconds"] = std::chrono::duration<double>(known.instance->paused).count();
    } else {
        instance["error"] = json::error_document(known.instance.error()).at("error");
    }
    out["instance"] = std::move(instance);
    out["spec"] = spec_of(known.record, show_env);
    json::Array rules;
    for (const auto& rule : known.rules) {
        json::Object one;
        one["rule"] = rule.demand.why;
        one["tier"] = policy::to_string(rule.holding.tier);
        one["how"] = rule.holding.how;
        one["held"] = rule.met;
        rules.emplace_back(std::move(one));
    }
    out["rules"] = std::move(rules);
    out["proof"] = known.proof.empty() ? json::Value(nullptr) : json::Value(known.proof);
    json::Array execs;
    for (const auto& exec : known.execs) execs.emplace_back(exec_json(exec));
    out["execs"] = std::move(execs);
    json::Array snapshots;
    for (const auto& snapshot : known.snapshots) snapshots.emplace_back(snapshot_json(snapshot));
    out["snapshots"] = std::move(snapshots);
    return out;
}

class Page {
public:
    void line(std::string_view name, const std::string& value)
    {
        if (!value.empty()) text_ += fmt::format("{:<12} {}\n", name, value);
    }
    void block(std::string_view name, const std::string& lines)
    {
        text_ += fmt::format("{}\n", name);
        for (const auto& one : split(lines, '\n'))
            if (!one.empty()) text_ += "  " + one + "\n";
    }
    [[nodiscard]] const std::string& text() const { return text_; }

private:
    std::string text_;
};

void show_record(Page& page, const SandboxRecord& record)
{
    const auto now = system_clock().now();
    const auto ago = [&](WallTime time) {
        return fmt::format("{} ({} ago)", rfc3339(time), brief(now - time));
    };
    page.line("id", record.id());
    page.line("name", printable(record.spec.name));
    page.line("key", printable(record.key, 600));
    page.line("state", std::string(berth::to_string(record.state)));
    page.line("failure", printable(record.failure, 600));
    page.line("superseded", record.superseded_by.empty() ? "" : "by " + record.superseded_by);
    page.line("backend", record.backend);
    page.line("generation", std::to_string(record.generation));
    page.line("created", ago(record.created));
    page.line("changed", ago(record.changed));
    page.line("last used", ago(record.last_used));
    const auto& keep = record.retention;
    if (keep.idle)
        page.line("idle", fmt::format("after {}: {}", show(*keep.idle), berth::to_string(keep.on_idle)));
    if (keep.lifetime) page.line("lifetime", show(*keep.lifetime));
}

void show_spec(Page& page, const SandboxSpec& spec, bool show_env)
{
    page.line("template", printable(to_string(spec.root), 600));
    page.line("user", printable(spec.user));
    page.line("workdir", printable(spec.workdir, 600));
    page.line("hostname", printable(host_name(spec)));
    for (const auto& mount : spec.mounts)
        page.line(mount.workspace ? "workspace" : "mount",
                  fmt::format("{}:{}:{}", printable(mount.source, 600), printable(mount.target, 600),
                              to_string(mount.mode)));
    for (const auto& volume : spec.volumes)
        page.line("volume", fmt::format("{}:{}:{}", printable(volume.name), printable(volume.target, 600),
                                        volume.writable ? "rw" : "ro"));
    for (const auto& [name, value] : spec.env)
        page.line("env",
                  printable(name) + (show_env ? "=" + printable(value, 600) : "  (value: --show-env)"));
    for (const auto& [name, value] : spec.labels)
        page.line("label", fmt::format("{}={}", printable(name), printable(value, 600)));
}

std::string page_of(const Known& known, bool show_env)
{
    const auto now = system_clock().now();
    Page page;
    show_record(page, known.record);
    if (!known.instance)
        page.line("instance", "cannot be asked: " + known.instance.error().line());
    else if (known.record.live())
        page.line("instance", std::string(to_string(known.instance->health)));
    show_spec(page, known.record.spec, show_env);
    if (!known.rules.empty()) {
        Table rules({"RULE", "TIER", "HOW"});
        for (const auto& rule : known.rules)
            rules.add({printable(rule.demand.why),
                       rule.met ? std::string(policy::to_string(rule.holding.tier)) : "NOT-HELD",
                       rule.holding.how});
        page.block("policy", rules.text());
    }
    if (const auto* const held = known.proof.if_contains("held"); held != nullptr && held->is_bool()) {
        const auto text = [&](std::string_view name) {
            const auto* const value = known.proof.if_contains(name);
            return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string{};
        };
        page.line("proof", fmt::format("{} at {}, receipt {}", held->get_bool() ? "held" : "NOT HELD",
                                       printable(text("time")), printable(text("id"))));
    }
    if (!known.execs.empty()) {
        Table execs({"EXEC", "STARTED", "OUTCOME", "COMMAND"});
        for (const auto& exec : known.execs)
            execs.add({exec.id, brief(now - exec.started) + " ago",
                       exec.ended == WallTime{} ? "running" : printable(exec.outcome, 100),
                       printable(fmt::format("{}", fmt::join(exec.argv, " ")), 100)});
        page.block("execs", execs.text());
    }
    if (!known.snapshots.empty()) {
        Table snapshots({"SNAPSHOT", "KIND", "SIZE", "AGE", "NOTE"});
        for (const auto& one : known.snapshots)
            snapshots.add({one.id, printable(one.kind), brief(Bytes{one.bytes}), brief(now - one.created),
                           cell(one.note)});
        page.block("snapshots", snapshots.text());
    }
    return page.text();
}

} // namespace

int inspect_verb(int argc, char** argv)
{
    CLI::App app(
        "Tell everything about a sandbox: its record, what was asked for, what its backend says and\n"
        "holds, its execs and its snapshots.\n\n"
        "Example:\n  berth inspect demo\n  berth inspect --json demo\n",
        "berth inspect");
    Common common;
    std::string ref;
    bool show_env = false;
    app.add_option("sandbox", ref, "An id, a prefix of one, a name or a key")->type_name("REF")->required();
    app.add_flag("--show-env", show_env, "Values of environment variables, too: they may be secrets");
    add_common(app, common);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, common, argc, argv)) return *done;
    const auto known = gather(common, ref);
    if (!known) return report(known.error(), common);
    if (common.json) return print_document(document_of(*known, show_env));
    return print(page_of(*known, show_env));
}

} // namespace berth::cli

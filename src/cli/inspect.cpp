#include <CLI/CLI.hpp>

#include "base/brief.hpp"
#include "base/strings.hpp"
#include "cli/record_json.hpp"
#include "cli/session.hpp"
#include "cli/table.hpp"
#include "cli/verbs.hpp"
#include "core/admit.hpp"
#include "core/spec_json.hpp"
#include "core/tells_user.hpp"
#include "lifecycle/borrowed.hpp"
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
    json::Object proof;               ///< the newest receipt, without its probes; empty: none
    std::optional<Borrowed> borrowed; ///< of somebody else's that could be asked for
    std::string runs_as;              ///< whom commands run as; empty: the spec's user, as far as is known
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

/// What only some backends tell, of an instance that answers.
void ask_more(Berth& berth, Backend& backend, Known& known)
{
    const auto handle = Lifecycle::handle(known.record);
    if (auto* const tells = dynamic_cast<TellsBorrowed*>(&backend);
        tells != nullptr && is_borrowed(known.record))
        if (auto told = berth.run(tells->borrowed(handle))) known.borrowed = *std::move(told);
    if (known.instance->state != State::Running) return;
    if (auto* const tells = dynamic_cast<TellsUser*>(&backend))
        if (auto told = berth.run(tells->runs_as(handle))) known.runs_as = *std::move(told);
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
        if (!is_borrowed(known.record))
            known.rules =
                policy::explain(policy::demands(known.record.spec.policy, accepted_tier(holds)), holds);
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
            if (known.instance->health == Health::Healthy) ask_more(*berth, **backend, known);
        }
    } else {
        known.instance = std::unexpected(backend.error());
    }
    BERTH_TRY(known.execs, berth->store().execs(id, false));
    BERTH_TRY(known.snapshots, berth->run(lifecycle.snapshots(id)));
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
    if (is_borrowed(record)) out["policy"] = nullptr; // nobody asked for one
    if (show_env) return out;
    json::Object env;
    for (const auto& [name, value] : record.spec.env) env[name] = nullptr;
    out["env"] = std::move(env);
    return out;
}

/// What was attached, and how its backend finds it now.
json::Value attachment_json(const Known& known)
{
    auto out = attachment_of(known.record);
    if (!out.is_object() || !known.borrowed) return out;
    const auto& is = *known.borrowed;
    auto& into = out.get_object();
    into["image"] = is.image;
    into["network"] = is.network;
    json::Array mounts;
    for (const auto& mount : is.mounts)
        mounts.emplace_back(json::Object{{"source", mount.source},
                                         {"target", mount.target},
                                         {"mode", std::string(to_string(mount.mode))}});
    into["mounts"] = std::move(mounts);
    json::Object limits;
    limits["memory_bytes"] = is.limits.memory ? json::Value(is.limits.memory->count) : json::Value(nullptr);
    limits["cpus"] = is.limits.cpus ? json::Value(*is.limits.cpus) : json::Value(nullptr);
    limits["pids"] = is.limits.pids ? json::Value(*is.limits.pids) : json::Value(nullptr);
    into["limits"] = std::move(limits);
    return out;
}

json::Object document_of(const Known& known, bool show_env)
{
    json::Object out = record_json(known.record);
    out["attachment"] = attachment_json(known);
    out["runs_as"] = text_or_null(known.runs_as);
    json::Object instance;
    if (known.instance) {
        instance["health"] = to_string(known.instance->health);
        instance["state"] = berth::to_string(known.instance->state);
        instance["exo_hash"] = text_or_null(known.instance->labels.exo_hash);
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
    if (is_borrowed(known.record)) out["rules_note"] = kNoRules;
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

void show_borrowed(Page& page, const Known& known)
{
    const auto attachment = attachment_of(known.record);
    if (const auto* const what = attachment.if_object())
        page.line("attached", fmt::format("{} {}", std::string_view(what->at("type").get_string()),
                                          std::string_view(what->at("container_id").get_string())));
    if (!known.borrowed) return;
    const auto& is = *known.borrowed;
    page.line("network", is.network);
    for (const auto& mount : is.mounts)
        page.line("mount", fmt::format("{}:{}:{}", printable(mount.source, 600), printable(mount.target, 600),
                                       to_string(mount.mode)));
    if (is.limits.memory) page.line("memory", show(*is.limits.memory));
    if (is.limits.cpus) page.line("cpus", fmt::format("{}", *is.limits.cpus));
    if (is.limits.pids) page.line("pids", std::to_string(*is.limits.pids));
}

void show_spec(Page& page, const SandboxSpec& spec, const std::string& runs_as, bool show_env)
{
    page.line("template", printable(to_string(spec.root), 600));
    page.line("user", runs_as.empty() ? printable(spec.user) : runs_as);
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

/// One that can be used is told by its health; one that stands still is not well, it stands still.
std::string word_of(const Found& instance)
{
    if (instance.health == Health::Healthy && instance.state != State::Running)
        return std::string(berth::to_string(instance.state));
    return std::string(to_string(instance.health));
}

std::string page_of(const Known& known, bool show_env)
{
    const auto now = system_clock().now();
    Page page;
    show_record(page, known.record);
    if (!known.instance)
        page.line("instance", "cannot be asked: " + known.instance.error().line());
    else if (known.record.live())
        page.line("instance", word_of(*known.instance));
    if (is_borrowed(known.record)) show_borrowed(page, known);
    show_spec(page, known.record.spec, known.runs_as, show_env);
    if (is_borrowed(known.record)) page.line("policy", std::string(kNoRules));
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
            snapshots.add(
                {one.id, printable(one.kind), size_text(one), brief(now - one.created), cell(one.note)});
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

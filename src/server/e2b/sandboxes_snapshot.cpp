// Snapshots under the names this protocol gives them, and forks.

#include <algorithm>

#include <boost/asio/this_coro.hpp>

#include "base/io.hpp"
#include "base/log.hpp"
#include "base/strings.hpp"
#include "lifecycle/template_note.hpp"
#include "server/e2b/sandboxes_held.hpp"
#include "server/e2b/template_name.hpp"

namespace berth::e2b {

BuildDefaults defaults_of(const Entry& entry)
{
    return {.user = entry.user,
            .workdir = entry.workdir,
            .env = entry.template_env,
            .start_cmd = entry.start_cmd,
            .ready_cmd = entry.ready_cmd,
            .interpreter = entry.interpreter,
            .own_accounts = entry.own_accounts};
}

void give(Entry& entry, const BuildDefaults& defaults)
{
    entry.user = defaults.user;
    entry.workdir = defaults.workdir;
    entry.template_env = defaults.env;
    for (const auto& [name, value] : defaults.env) entry.env.try_emplace(name, value);
    entry.start_cmd = defaults.start_cmd;
    entry.ready_cmd = defaults.ready_cmd;
    entry.interpreter = defaults.interpreter;
    entry.own_accounts = defaults.own_accounts;
}

/// What sandboxes made from this one's snapshots need to know of it when it is gone. Before the first of
/// them is taken: one without it would be a sandbox of the base template's.
Task<Status> Sandboxes::keep_origin(const Entry& entry)
{
    Entry kept;
    kept.id = entry.id;
    kept.tenant = entry.tenant;
    give(kept, defaults_of(entry)); // and not what the client gave: it may be a secret
    return origins_.save(entry.id + ".json", render(kept));
}

Task<BuildDefaults> Sandboxes::defaults_from(std::string origin)
{
    if (!is_sandbox_id(origin)) co_return BuildDefaults{};
    if (const auto at = entries_.find(origin); at != entries_.end()) co_return defaults_of(*at->second);
    const auto kept = co_await ground_.pool.call([&]() -> Result<Entry> {
        BERTH_TRY(const auto directory, gate::open_directory(origins_.directory()));
        BERTH_TRY(const auto text, read_file_at(directory.get(), origin + ".json"));
        return parse_entry(text);
    });
    co_return kept ? defaults_of(*kept) : BuildDefaults{};
}

/// Of those that are gone, and so are their snapshots.
Task<void> Sandboxes::drop_origins()
{
    std::set<std::string> used;
    for (const auto& [id, entry] : entries_) used.insert(id + ".json");
    (void)co_await ground_.pool.call([&]() -> Status {
        BERTH_TRY(const auto directory, gate::open_directory(origins_.directory()));
        BERTH_TRY(const auto all, ground_.berth.store().snapshots({}));
        for (const auto& one : all) used.insert(one.spec.name + ".json");
        BERTH_TRY(const auto names, list_names(directory.get()));
        for (const auto& name : names)
            if (!used.contains(name)) ::unlinkat(directory.get(), name.c_str(), 0);
        return {};
    });
}

Task<Result<std::vector<Result<EntryPtr>>>> Sandboxes::fork(EntryPtr entry, ForkRequest wish)
{
    BERTH_CO_TRY(const auto held, co_await alone(entry));
    if (entry->paused) co_return fail(Code::Conflict, "sandbox \"{}\" is paused", entry->id);
    auto& lifecycle = ground_.berth.lifecycle();
    SnapshotWish step;
    step.note = "a step of a fork";
    BERTH_CO_TRY(const auto taken, co_await lifecycle.snapshot(entry->record.id(), std::move(step)));
    std::vector<Result<EntryPtr>> out;
    for (std::size_t i = 0; i < wish.count; ++i) {
        NewSandbox same;
        same.template_id = entry->template_id;
        same.timeout = wish.timeout;
        same.secure = !entry->token.empty();
        same.public_traffic = entry->traffic_token.empty();
        same.ingress = entry->ingress;
        same.metadata = entry->metadata;
        same.env = entry->env;
        same.volumes = entry->volumes;
        same.auto_pause = entry->auto_pause;
        same.auto_pause_memory = entry->auto_pause_memory;
        same.auto_resume = entry->auto_resume;
        auto twin = fresh(same, entry->tenant);
        twin->alias = entry->alias;
        give(*twin, defaults_of(*entry));
        auto made = co_await make(twin, std::move(same), taken.record.id);
        if (made) made = co_await begin_work(twin);
        if (made)
            out.emplace_back(twin);
        else
            out.emplace_back(std::unexpected(std::move(made).error()));
    }
    (void)co_await lifecycle.remove_snapshot(taken.record.id);
    co_return out;
}

Task<Result<Sandboxes::Snapshot>> Sandboxes::snapshot(EntryPtr entry, std::string name)
{
    BERTH_CO_TRY(const auto held, co_await alone(entry));
    Snapshot out;
    SnapshotWish wish;
    std::optional<TemplateName> named;
    if (!name.empty()) {
        BERTH_CO_TRY(named, parse_template_name(name));
        if (!named->space.empty() && named->space != lower_case(entry->tenant))
            co_return fail(Code::Denied, "namespace '{}' is not yours", named->space);
        // Whoever asked for the snapshot, or removed it, would get the template.
        if (templates_.of_tenant(named->alias, entry->tenant))
            co_return fail(Code::Conflict, "'{}' is the name of a template", named->alias);
        wish.note = fmt::format("{}:{}", named->alias, named->tag);
    }
    BERTH_CO_CHECK(co_await keep_origin(*entry));
    BERTH_CO_TRY(const auto taken,
                 co_await ground_.berth.lifecycle().snapshot(entry->record.id(), std::move(wish)));
    if (named) {
        // What is left of them is hidden by this one, and removed with it.
        if (const auto gone = co_await drop_replaced(taken.record, entry->tenant); !gone)
            log::warn("an older snapshot could not be removed",
                      {{"name", taken.record.note}, {"why", gone.error().line()}});
        const std::string full = fmt::format("{}/{}", lower_case(entry->tenant), named->alias);
        out.id = fmt::format("{}:{}", full, named->tag);
        out.names = {full};
    } else {
        out.id = taken.record.id + ":default";
    }
    co_return out;
}

/// A name stands for the newest: nobody can ask for those before it.
Task<Status> Sandboxes::drop_replaced(SnapshotRecord newest, std::string tenant)
{
    BERTH_CO_TRY(const auto all,
                 co_await ground_.pool.call([&] { return ground_.berth.store().snapshots({}); }));
    bool older = false; // they come newest first
    for (const auto& one : all) {
        if (older && !one.internal && gate::owned(one.spec, tenant) && one.note == newest.note)
            BERTH_CO_CHECK(co_await ground_.berth.lifecycle().remove_snapshot(one.id));
        older = older || one.id == newest.id;
    }
    co_await drop_origins();
    co_return Status{};
}

Task<Result<bool>> Sandboxes::snapshot_named(std::string alias, std::string tenant)
{
    BERTH_CO_TRY(const auto all, co_await snapshots(std::move(tenant)));
    co_return std::ranges::any_of(all, [&](const auto& one) {
        const auto& names = one.snapshot.names;
        return !names.empty() && names.front().ends_with("/" + alias);
    });
}

Task<Result<std::vector<Sandboxes::ListedSnapshot>>> Sandboxes::snapshots(std::string tenant)
{
    std::vector<ListedSnapshot> out;
    BERTH_CO_TRY(const auto all,
                 co_await ground_.pool.call([&] { return ground_.berth.store().snapshots({}); }));
    for (const auto& one : all) {
        if (one.internal || !gate::owned(one.spec, tenant)) continue;
        if (one.note.starts_with("a step ") || one.note.starts_with(kTemplateNote)) continue;
        ListedSnapshot listed{.created = one.created};
        listed.sandbox = one.spec.name; // see make(); the sandbox may be gone
        if (one.note.empty()) {
            listed.snapshot.id = one.id + ":default";
        } else {
            const std::string full = lower_case(tenant) + "/" + one.note;
            listed.snapshot.id = full;
            listed.snapshot.names = {full.substr(0, full.find(':'))};
        }
        out.push_back(std::move(listed));
    }
    co_return out;
}

Task<Result<Sandboxes::Source>> Sandboxes::source_of(std::string name, std::string tenant)
{
    BERTH_CO_TRY(const auto parsed, parse_template_name(name));
    if (const auto one = templates_.find(parsed, tenant)) {
        ++one->built->spawned;
        one->built->last_spawned = now();
        co_return Source{.snapshot = one->build->snapshot,
                         .template_id = one->built->id,
                         .alias = one->built->alias,
                         .defaults = one->build->defaults,
                         .limits = limits_of(*one->built)};
    }
    Source out;
    if (const auto given = given_template(parsed); !given.empty()) {
        out.template_id = out.alias = std::string(given);
        out.defaults.interpreter = given == kInterpreterTemplate;
        co_return out;
    }
    BERTH_CO_TRY(const auto found, co_await snapshot_of(std::move(name), std::move(tenant)));
    out.snapshot = out.template_id = found.id;
    if (const auto named = parse_template_name(found.note)) out.alias = named->alias;
    out.defaults = co_await defaults_from(found.spec.name);
    co_return out;
}

policy::Limits Sandboxes::limits_of(const Built& built) const
{
    const auto machine = machine_size();
    policy::Limits out;
    if (limits_cpu_ && built.cpus != 0 && built.cpus < machine.cpus) out.cpus = built.cpus;
    if (limits_memory_ && built.memory_mb != 0 && built.memory_mb < machine.memory_mb)
        out.memory = Bytes{std::uint64_t{built.memory_mb} << 20};
    return out;
}

Task<Result<SnapshotRecord>> Sandboxes::snapshot_of(std::string template_id, std::string tenant)
{
    BERTH_CO_TRY(const auto name, parse_template_name(template_id));
    const bool bare = name.space.empty();
    BERTH_CO_TRY(const auto all,
                 co_await ground_.pool.call([&] { return ground_.berth.store().snapshots({}); }));
    const std::string note = fmt::format("{}:{}", name.alias, name.tag);
    for (const auto& one : all) { // newest first
        if (one.internal || !gate::owned(one.spec, tenant)) continue;
        if (bare && one.id == name.alias && name.tag == "default") co_return one;
        if ((bare || name.space == lower_case(tenant)) && one.note == note) co_return one;
    }
    co_return fail(Code::NotFound, "template '{}' not found", printable(template_id, 100));
}

Task<Result<bool>> Sandboxes::remove_snapshot(std::string id, std::string tenant)
{
    bool removed = false;
    // A name may stand for several that were made one after the other.
    for (;;) {
        auto found = co_await snapshot_of(id, tenant);
        if (!found && found.error().code != Code::NotFound) co_return std::unexpected(found.error());
        if (!found) {
            if (removed) co_await drop_origins();
            co_return removed;
        }
        BERTH_CO_CHECK(co_await ground_.berth.lifecycle().remove_snapshot(found->id));
        removed = true;
    }
}

} // namespace berth::e2b

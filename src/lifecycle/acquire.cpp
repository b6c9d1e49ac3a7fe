// From a wish to a sandbox. Whoever comes second, in this process or another, waits for the first and
// gets the same one.

#include <sys/stat.h>

#include "base/brief.hpp"
#include "base/hooks.hpp"
#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/strings.hpp"
#include "core/admit.hpp"
#include "core/exo_spec.hpp"
#include "core/spec_hash.hpp"
#include "core/tells_user.hpp"
#include "lifecycle/begins_with.hpp"
#include "lifecycle/events.hpp"
#include "lifecycle/key.hpp"
#include "lifecycle/lifecycle.hpp"
#include "lifecycle/stored.hpp"
#include "lifecycle/tar_snapshot.hpp"
#include "lifecycle/volumes.hpp"

namespace berth {

namespace {

Status check(const AcquireRequest& request)
{
    if (!request.key.empty()) BERTH_CHECK(check_key(request.key));
    if (!request.spec.id.empty()) return fail(Code::Invalid, "a sandbox gets its id when it is made");
    const auto positive = [](const auto& time) { return !time || time->count() > 0; };
    if (!positive(request.retention.idle) || !positive(request.retention.lifetime))
        return fail(Code::Invalid, "idle time and lifetime must be longer than zero");
    SandboxSpec probe = request.spec;
    probe.id = "sbx_00000000000000000000000000";
    return validate(probe);
}

/// When it was moved away from where what is asked for would find it; nothing: it was not, or was never that.
/// The ledger knows as what it was made.
Result<std::optional<WallTime>> moved_from(Store& store, const SandboxRecord& record,
                                           const std::string& backend, const std::string& hash)
{
    BERTH_TRY(const auto moves, store.ledger({.sandbox = record.id(), .type = "berth.sandbox_moved"}));
    if (moves.empty()) return std::optional<WallTime>{};
    const auto text = [&](const char* name) -> std::string {
        const auto* value = moves.front().data.if_contains(name);
        return value != nullptr && value->is_string() ? std::string(value->get_string()) : std::string{};
    };
    if (text("from") != backend || text("spec_hash") != hash) return std::optional<WallTime>{};
    return std::optional(moves.back().time);
}

/// What whoever loses a key to another specification is told.
Result<std::string> why_superseded(Store& store, const SandboxRecord& old)
{
    const std::string& id = old.id();
    if (old.state != State::Lost)
        return fmt::format("{} had the key with another specification; it is kept for a day "
                           "(berth inspect {})",
                           id, id);
    BERTH_TRY(auto left, store.snapshots(id));
    std::erase_if(left, [](const SnapshotRecord& one) { return one.internal; });
    if (left.empty())
        return fmt::format("{} had the key with another specification and was lost; it has no snapshot", id);
    return fmt::format("{} had the key with another specification and was lost; its newest snapshot is {} "
                       "(berth snapshots {})",
                       id, left.front().id, id);
}

/// The newest word on how long a sandbox is kept counts, and silence is none.
Retention newest_word(Retention known, const AcquireRequest& asked)
{
    const auto& said = asked.retention;
    if (asked.never_idle) known.on_idle = OnIdle::Stop;
    if (said.idle || asked.never_idle) known.idle = said.idle;
    if (said.on_idle) known.on_idle = *said.on_idle;
    if (said.lifetime || asked.never_old) known.lifetime = said.lifetime;
    return known;
}

/// Who is asked for by key and name is one sandbox; no other's name is taken away.
Status name_is_free(Store& store, const std::string& name, const SandboxRecord& keyed)
{
    if (name.empty() || name == keyed.spec.name) return {};
    BERTH_TRY(const auto named, store.list({.name = name, .limit = 1}));
    if (named.empty()) return {};
    return fail(Code::Conflict, "the name '{}' is that of {}, and the key '{}' that of {}",
                printable(name, 60), named.front().id(), printable(keyed.key, 60), keyed.id());
}

/// The snapshot that its files begin with; empty: its template alone.
std::string begins_with(const SandboxSpec& spec)
{
    const auto label = spec.labels.find(std::string(kBeginsWithLabel));
    return label == spec.labels.end() ? std::string{} : label->second;
}

/// What a sandbox is known by: labels are no part of a specification, but this one says what it is.
std::string hash_of(const SandboxSpec& spec)
{
    const auto from = begins_with(spec);
    return from.empty() ? spec_hash(spec) : fmt::format("{}+{}", spec_hash(spec), from);
}

/// That the default user is somebody else in the image, where the backend tells that; empty: nobody says so.
Task<std::string> note_of_user(Backend& where, const SandboxRecord& made)
{
    auto* const tells = dynamic_cast<TellsUser*>(&where);
    if (tells == nullptr || made.spec.user != "user" || made.spec.root.kind == Template::Kind::Host ||
        made.spec.root.kind == Template::Kind::Live)
        co_return std::string{};
    const auto who = co_await tells->runs_as(Lifecycle::handle(made));
    if (!who || who->starts_with("user,")) co_return std::string{};
    co_return fmt::format("the image has no account 'user': commands run as {}", *who);
}

} // namespace

/// What a backend is asked for, with the record's volumes in their places.
Task<Result<CreateRequest>> Lifecycle::instance_wish(SandboxRecord& record)
{
    const std::string owner = record.key.empty() ? record.id() : record.key;
    BERTH_CO_CHECK(
        co_await pool_.call([&] { return volumes::provide(volume_directory(), owner, record.spec); }));
    CreateRequest request(record.spec);
    request.labels = {.key = record.key,
                      .spec_hash = record.spec_hash,
                      .exo_hash = exo::hash_as_given(record.spec),
                      .owner = store_.owner(),
                      .created = clock_.now(),
                      .generation = record.generation};
    co_return request;
}

/// What another program made for the same key and specification, as the instance of a record that says
/// `creating`.
Task<Result<std::optional<SandboxRecord>>> Lifecycle::adopt_instance(SandboxRecord record)
{
    if (record.key.empty()) co_return std::optional<SandboxRecord>{};
    BERTH_CO_TRY(auto* const where, co_await backend(record.backend));
    BERTH_CO_TRY(auto request, co_await instance_wish(record));
    BERTH_CO_TRY(const auto found, co_await where->adopt(std::move(request)));
    if (!found) co_return std::optional<SandboxRecord>{};
    record.native = found->native;
    co_return record;
}

/// The instance of a record that says `creating`, from its template or from a snapshot.
Task<Result<SandboxRecord>> Lifecycle::make_instance(SandboxRecord record, std::optional<SnapshotSource> from,
                                                     MakeProgress progress)
{
    BERTH_CO_TRY(auto* const where, co_await backend(record.backend));
    BERTH_CO_TRY(auto request, co_await instance_wish(record));
    request.progress = std::move(progress);
    const bool tar = from && from->kind == snapshot_kind::kWorkspaceTar;
    if (!tar) request.from = from;
    BERTH_CO_TRY(auto made, co_await where->create(std::move(request)));
    record.native = made.native;
    if (!tar) co_return record;
    auto unpacked = co_await tar_snapshot::restore(*where, made, record.spec, from->directory);
    if (unpacked) co_return record;
    (void)co_await where->destroy(std::move(made));
    co_return std::unexpected(std::move(unpacked).error().while_doing("restoring " + from->id));
}

/// No instance came of a record that says `creating`.
Task<Error> Lifecycle::give_up(SandboxRecord record, Error error)
{
    record.failure = error.line();
    Events told{events::other(record, "berth.sandbox_failed", record.failure)};
    auto noted = co_await change(std::move(record), Transition::Error, std::move(told));
    co_return noted ? std::move(error) : std::move(noted).error();
}

/// The key goes from one to the other once the other stands: whoever asks for something that cannot be made
/// keeps what he had.
Task<Result<SandboxRecord>> Lifecycle::supersede(SandboxRecord old, SandboxRecord record, Events told)
{
    if (old.state == State::Lost) {
        const std::string left =
            old.latest_snapshot.empty() ? "no snapshot" : "its newest snapshot is " + old.latest_snapshot;
        told.push_back(events::other(old, "berth.sandbox_destroyed",
                                     "lost; " + (old.failure.empty() ? left : old.failure)));
        old.state = State::Destroyed;
    } else {
        told.push_back(events::other(old, "berth.sandbox_superseded", record.id()));
        old.superseded_by = record.id();
    }
    old.changed = clock_.now();
    BERTH_CO_TRY(record, advance(std::move(record), Transition::Usable));
    co_return co_await stored([&](Store& store) { return store.replace(old, record, told); });
}

/// What is to be made is known before anything of it is. Without a key it is known by its id alone, which is
/// locked then.
Task<Result<Lifecycle::Begun>> Lifecycle::begin_record(SandboxRecord record)
{
    Begun begun;
    const std::string id = record.id();
    if (record.key.empty()) {
        auto held = co_await lock(id);
        if (!held) give_back(id);
        if (!held) co_return std::unexpected(std::move(held).error());
        begun.lock.emplace(*std::move(held));
    }
    auto stored_one = co_await stored([&](Store& store) { return store.insert(record, {}); });
    if (!stored_one) give_back(id);
    if (!stored_one) co_return std::unexpected(std::move(stored_one).error());
    begun.record = *std::move(stored_one);
    co_return begun;
}

Task<Result<Acquired>> Lifecycle::create(AcquireRequest request, std::optional<SandboxRecord> old,
                                         std::string why)
{
    Acquired answer{.tier = Tier::Fresh};
    if (old) answer.notes.push_back(why);
    BERTH_CO_TRY(auto* const where, co_await backend(request.backend));
    // What is refused leaves no trace. The backend decides again, and says what it does not hold.
    std::vector<std::string> unheld;
    BERTH_CO_CHECK(admit(request.spec, where->capabilities().holds, unheld));
    SandboxRecord record;
    record.spec = std::move(request.spec);
    std::optional<SnapshotSource> from;
    if (const auto id = begins_with(record.spec); !id.empty()) {
        BERTH_CO_TRY(auto snapshot, co_await find_snapshot(id));
        BERTH_CO_TRY(from, co_await source_of(std::move(snapshot), request.backend));
        record.latest_snapshot = from->id;
    }
    record.spec.id = new_id(request.backend, record.spec, record.latest_snapshot);
    record.spec_hash = hash_of(record.spec);
    if (!old) record.key = request.key;
    record.backend = std::move(request.backend);
    record.native = record.spec.id;
    record.retention = newest_word({}, request);
    record.created = record.changed = record.last_used = clock_.now();
    BERTH_CO_TRY(auto begun, co_await begin_record(std::move(record)));
    record = std::move(begun.record);
    hooks::kill_point("sandbox recorded");
    SandboxRecord keyed = record;
    keyed.key = request.key;
    // Whoever had the key before us had no other's work either: only a key's first sandbox adopts.
    auto adopted = old ? Result<std::optional<SandboxRecord>>{} : co_await adopt_instance(keyed);
    if (!adopted || *adopted) give_back(record.id());
    if (!adopted) co_return std::unexpected(co_await give_up(std::move(record), std::move(adopted).error()));
    auto made = *adopted ? Result<SandboxRecord>(**std::move(adopted))
                         : co_await make_instance(std::move(keyed), std::move(from), request.progress);
    if (!made) co_return std::unexpected(co_await give_up(std::move(record), std::move(made).error()));
    hooks::kill_point("instance made");
    if (auto note = co_await note_of_user(*where, *made); !note.empty())
        answer.notes.push_back(std::move(note));
    if (request.accept && !*adopted) {
        auto accepted = co_await request.accept(*made);
        hooks::kill_point("sandbox judged");
        if (!accepted) {
            auto gone = co_await where->destroy(handle(*made));
            auto error = std::move(accepted).error().while_doing(
                gone ? fmt::format("handing out {}, which was destroyed", made->id())
                     : fmt::format("handing out {}, which berth gc removes: {}", made->id(),
                                   gone.error().line()));
            co_return std::unexpected(co_await give_up(std::move(record), std::move(error)));
        }
    }
    Events usable{events::created(*made), events::started(*made, made->latest_snapshot)};
    if (*adopted) {
        answer.tier = Tier::Attached;
        answer.notes.push_back("made by another program for the same key and specification: it is ours now");
        usable.push_back(events::other(*made, "berth.sandbox_adopted"));
    }
    if (old && old->state == State::Lost) {
        usable.push_back(events::other(*made, "berth.sandbox_recovered", why));
        usable.back().data["tier"] = "fresh";
        usable.back().data["lost_sandbox_id"] = old->id();
    }
    if (old) {
        BERTH_CO_TRY(answer.record, co_await supersede(*std::move(old), *std::move(made), std::move(usable)));
    } else {
        BERTH_CO_TRY(answer.record, co_await change(*std::move(made), Transition::Usable, std::move(usable)));
    }
    co_return answer;
}

/// Its maker died on the way. No command can have run in it, so what is half made is nobody's work.
Task<Result<SandboxRecord>> Lifecycle::finish_creating(SandboxRecord record)
{
    BERTH_CO_TRY(const auto found, co_await look(record));
    // What was to come from a snapshot comes from it: one that runs may have got only a part of a tar.
    std::optional<SnapshotSource> from;
    if (!record.latest_snapshot.empty()) {
        BERTH_CO_TRY(auto snapshot, co_await find_snapshot(record.latest_snapshot));
        BERTH_CO_TRY(from, co_await source_of(std::move(snapshot), record.backend));
    }
    const bool stands = found.health == Health::Healthy && found.state == State::Running;
    if (!stands && record.spec.labels.contains(std::string(kForkLabel)) && !from)
        co_return fail(Code::NotFound, "sandbox {} is a fork that was never finished: berth gc removes it",
                       record.id());
    if (!stands || from) {
        BERTH_CO_TRY(auto* const where, co_await backend(record.backend));
        BERTH_CO_CHECK(co_await where->release(handle(record))); // one that was to be adopted has work in it
        BERTH_CO_CHECK(co_await where->destroy(handle(record)));
        std::optional<SandboxRecord> adopted;
        if (!from) {
            BERTH_CO_TRY(adopted, co_await adopt_instance(record));
        }
        if (adopted) {
            record = *std::move(adopted);
        } else {
            BERTH_CO_TRY(record, co_await make_instance(std::move(record), std::move(from)));
        }
    }
    Events usable{events::created(record), events::started(record, record.latest_snapshot)};
    co_return co_await change(std::move(record), Transition::Usable, std::move(usable));
}

/// How long a sandbox is kept is not what it is found by.
Task<Result<SandboxRecord>> Lifecycle::keep_for(SandboxRecord record, Retention wish)
{
    if (wish == record.retention) co_return record;
    record.retention = wish;
    record.due = record.deadline();
    Events told{events::other(record, "berth.sandbox_retention_changed")};
    co_return co_await stored([&](Store& store) { return store.update(record, told); });
}

Task<Result<Acquired>> Lifecycle::acquire(AcquireRequest request)
{
    BERTH_CO_CHECK(check(request));
    BERTH_CO_CHECK(backends_.registry().check(request.backend));
    const std::string& name = request.spec.name;
    std::optional<KeyLock> name_held, key_held;
    if (!name.empty()) {
        BERTH_CO_TRY(name_held, co_await lock("name:" + name));
    }
    if (!request.key.empty()) {
        BERTH_CO_TRY(key_held, co_await lock("key:" + request.key));
    }
    const std::string hash = hash_of(request.spec);
    bool same = false; // what is known is what is asked for, here or where it was moved to
    std::optional<WallTime> moved;
    const auto compare = [&](Store& store, const SandboxRecord& record) -> Status {
        same = record.spec_hash == hash && record.backend == request.backend;
        if (same) return {};
        BERTH_TRY(moved, moved_from(store, record, request.backend, hash));
        same = moved.has_value();
        return {};
    };
    const auto existing = [&](Store& store) -> Result<std::optional<SandboxRecord>> {
        if (!request.key.empty()) {
            BERTH_TRY(auto keyed, store.find_key(request.key));
            if (keyed) BERTH_CHECK(compare(store, *keyed));
            if (keyed) BERTH_CHECK(name_is_free(store, name, *keyed));
            if (keyed || name.empty()) return keyed;
        }
        if (name.empty()) return std::optional<SandboxRecord>{};
        BERTH_TRY(auto named, store.list({.name = name, .limit = 1000}));
        if (named.empty()) return std::optional<SandboxRecord>{};
        BERTH_CHECK(compare(store, named.back()));
        if (named.back().key != request.key || !same)
            return fail(Code::Conflict, "a sandbox named '{}' exists with another configuration: {}",
                        printable(name, 60), named.back().id());
        return named.back();
    };
    BERTH_CO_TRY(auto known, co_await stored(existing));
    if (!known) co_return co_await create(std::move(request), std::nullopt, {});
    if (!same) {
        BERTH_CO_TRY(const auto why,
                     co_await stored([&](Store& store) { return why_superseded(store, *known); }));
        co_return co_await create(std::move(request), std::move(known), why);
    }
    std::optional<KeyLock> id_held;
    if (known->key.empty()) {
        BERTH_CO_TRY(id_held, co_await lock(known->id()));
    }
    BERTH_CO_TRY(known, co_await keep_for(*known, newest_word(known->retention, request)));
    // Nor are labels what it is found by.
    auto labels = request.spec.labels;
    labels.insert(known->spec.labels.begin(), known->spec.labels.end());
    if (labels != known->spec.labels) {
        known->spec.labels = std::move(labels);
        Events told{events::other(*known, "berth.sandbox_labels_changed")};
        BERTH_CO_TRY(known, co_await stored([&](Store& store) { return store.update(*known, told); }));
    }
    // Nor is the name, where there is a key.
    if (!name.empty() && name != known->spec.name) {
        known->spec.name = name;
        Events told{events::other(*known, "berth.sandbox_renamed", name)};
        BERTH_CO_TRY(known, co_await stored([&](Store& store) { return store.update(*known, told); }));
    }
    BERTH_CO_TRY(auto resumed, co_await resume_tiers(*known, request.on_loss));
    if (resumed && moved)
        resumed->notes.push_back(
            fmt::format("{0} was moved to {1} on {2}: berth move {0} --to {3} brings it back",
                        printable(known->key.empty() ? name : known->key, 60), known->backend,
                        rfc3339(*moved), request.backend));
    if (resumed) co_return *std::move(resumed);
    BERTH_CO_TRY(auto lost, co_await stored([&](Store& store) { return store.find(known->id()); }));
    if (!lost) co_return fail(Code::Conflict, "sandbox {} was forgotten meanwhile: try again", known->id());
    const std::string why =
        lost->failure.empty()
            ? fmt::format("{} is gone and has no snapshot: this one starts empty", known->id())
            : fmt::format("{} is gone, and this one starts empty: {} (berth snapshots {} lists what is left)",
                          known->id(), lost->failure, known->id());
    co_return co_await create(std::move(request), std::move(lost), why);
}

} // namespace berth

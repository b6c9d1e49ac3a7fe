#include "server/e2b/sandboxes.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cmath>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/log.hpp"
#include "base/scope_exit.hpp"
#include "base/strings.hpp"
#include "server/e2b/marks.hpp"
#include "server/e2b/sandboxes_held.hpp"
#include "server/e2b/start_command.hpp"
#include "server/e2b/template_name.hpp"

namespace berth::e2b {

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;

constexpr auto as_value = asio::as_tuple(asio::use_awaitable);
constexpr auto kPoll = 3ms;
constexpr auto kStopGrace = 2s;
constexpr auto kReadyTime = 45s; // clients wait a minute for a sandbox
constexpr std::string_view kStartTag = "startCmd";

} // namespace

Task<Result<Sandboxes::Held>> Sandboxes::alone(EntryPtr entry)
{
    asio::steady_timer timer(co_await asio::this_coro::executor);
    const auto until = system_clock().steady() + 60s;
    while (entry->busy) {
        if (system_clock().steady() >= until)
            co_return fail(Code::Unavailable, "sandbox {} is being changed", entry->id);
        timer.expires_after(kPoll);
        co_await timer.async_wait(as_value);
    }
    if (entry->dying) co_return fail(Code::NotFound, "sandbox \"{}\" not found", entry->id);
    co_return Held(std::move(entry));
}

Task<Status> Sandboxes::save(const Entry& entry)
{
    return documents_.save(entry.id + ".json", render(entry));
}

Task<Status> Sandboxes::forget(const Entry& entry)
{
    co_await notes_.clear(entry.id);
    co_return co_await documents_.remove(entry.id + ".json");
}

/// An entry whose sandbox was never finished has no client that knows of it.
Task<Status> Sandboxes::load()
{
    if (const auto where = co_await ground_.berth.lifecycle().backend(ground_.backend)) {
        const auto holds = (*where)->capabilities().holds;
        limits_memory_ = holds.of(policy::Feature::LimitMemory).tier != policy::Tier::None;
        limits_cpu_ = holds.of(policy::Feature::LimitCpu).tier != policy::Tier::None;
    }
    std::vector<Entry> found;
    BERTH_CO_CHECK(co_await ground_.pool.call([&]() -> Status {
        BERTH_TRY(const auto directory, gate::open_directory(documents_.directory()));
        BERTH_TRY(const auto names, list_names(directory.get()));
        for (const auto& name : names) {
            if (!name.ends_with(".json")) continue;
            auto text = read_file_at(directory.get(), name);
            auto entry = text ? parse_entry(*text) : Result<Entry>(std::unexpected(text.error()));
            if (entry)
                found.push_back(*std::move(entry));
            else
                log::warn("an entry cannot be read", {{"name", name}, {"why", entry.error().line()}});
        }
        return {};
    }));
    for (auto& one : found) {
        auto entry = std::make_shared<Entry>(std::move(one));
        auto record = co_await ground_.berth.lifecycle().find(entry->key());
        // Only what is known to be gone is forgotten.
        if (!record && record.error().code != Code::NotFound)
            co_return std::unexpected(std::move(record).error());
        const bool there = record && record->live() && record->state != State::Creating;
        if (!there) {
            if (record) (void)co_await ground_.berth.lifecycle().destroy(record->id());
            BERTH_CO_CHECK(co_await forget(*entry));
            continue;
        }
        // Whoever paused it, or stopped it, may not have come to write that down here.
        const auto state = record->state;
        const bool rests = state == State::Paused || (state == State::Stopped && now() < entry->end);
        if (rests && !entry->paused) {
            entry->paused = true;
            entry->kept_memory = state == State::Paused;
        }
        entry->record = *std::move(record);
        entry->made = true;
        entry->turn = std::make_unique<asio::steady_timer>(co_await asio::this_coro::executor,
                                                           asio::steady_timer::time_point::max());
        entries_[entry->id] = std::move(entry);
    }
    co_await drop_origins();
    co_return Status{};
}

EntryPtr Sandboxes::find(std::string_view id) const
{
    const auto at = entries_.find(id);
    return at == entries_.end() || at->second->dying || !at->second->made ? nullptr : at->second;
}

Result<EntryPtr> Sandboxes::of_tenant(std::string_view id, const std::string& tenant) const
{
    const auto parts = split(id, '-');
    if (parts.size() > 2 || !is_sandbox_id(parts.front()))
        return fail(Code::Invalid, "invalid sandbox ID '{}'", printable(id, 80));
    auto entry = find(parts.front());
    // Somebody else's is not there.
    if (!entry || entry->tenant != tenant)
        return fail(Code::NotFound, "sandbox \"{}\" not found", parts.front());
    return entry;
}

std::vector<EntryPtr> Sandboxes::all() const
{
    std::vector<EntryPtr> out;
    for (const auto& [id, entry] : entries_)
        if (entry->made && !entry->dying) out.push_back(entry);
    return out;
}

Task<Result<Backend*>> Sandboxes::backend(const Entry& entry)
{
    co_return co_await ground_.berth.lifecycle().backend(entry.record.backend);
}

EntryPtr Sandboxes::fresh(const NewSandbox& wish, const std::string& tenant)
{
    auto entry = std::make_shared<Entry>();
    entry->id = "i" + random_hex(10);
    entry->tenant = tenant;
    entry->template_id = wish.template_id;
    entry->token = wish.secure ? random_hex(24) : std::string{};
    entry->traffic_token = wish.public_traffic ? std::string{} : random_hex(24);
    entry->ingress = wish.ingress;
    entry->timeout = wish.timeout;
    entry->started = now();
    entry->end = entry->started + wish.timeout;
    entry->auto_pause = wish.auto_pause;
    entry->auto_pause_memory = wish.auto_pause_memory;
    entry->auto_resume = wish.auto_resume;
    entry->metadata = wish.metadata;
    entry->env = wish.env;
    entry->volumes = wish.volumes;
    return entry;
}

/// Intent first: an entry without a sandbox is removed at the next start.
Task<Status> Sandboxes::make(EntryPtr entry, NewSandbox wish, std::string snapshot,
                             std::optional<policy::Limits> limits)
{
    entry->turn = std::make_unique<asio::steady_timer>(co_await asio::this_coro::executor,
                                                       asio::steady_timer::time_point::max());
    BERTH_CO_CHECK(validate_env(wish.env));
    BERTH_CO_TRY(const auto room, co_await gate::room_for(ground_, entry->tenant));
    BERTH_CO_TRY(auto mounts, volumes_.mounts(wish.volumes, entry->tenant));
    BERTH_CO_CHECK(co_await save(*entry));
    entries_[entry->id] = entry;
    auto& lifecycle = ground_.berth.lifecycle();
    Result<Acquired> made = fail(Code::Internal, "nothing was made");
    if (snapshot.empty()) {
        AcquireRequest request;
        request.backend = ground_.backend;
        request.key = entry->key();
        request.spec.name = entry->id; // and so its host name: no two have the same
        BERTH_CO_TRY(request.spec.policy, policy::preset("sandbox"));
        request.spec.labels[std::string(kTenantLabel)] = entry->tenant;
        request.spec.volumes = std::move(mounts.volumes);
        made = co_await lifecycle.acquire(std::move(request));
    } else {
        // What the snapshot's sandbox had mounted is not part of it.
        RestoreWish wished{.as_new = true, .name = entry->id, .key = entry->key(), .backend = {}};
        wished.volumes = std::move(mounts.volumes);
        wished.limits = limits;
        made = co_await lifecycle.restore(snapshot, std::move(wished));
    }
    if (!made) {
        entries_.erase(entry->id);
        (void)co_await forget(*entry);
        co_return std::unexpected(std::move(made).error());
    }
    entry->record = std::move(made->record);
    entry->made = true;
    if (const auto where = co_await backend(*entry); where)
        co_await leave_marks(**where, handle(*entry), *entry);
    co_return Status{};
}

Task<Result<EntryPtr>> Sandboxes::create(NewSandbox wish, std::string tenant)
{
    BERTH_CO_TRY(auto source, co_await source_of(wish.template_id, tenant));
    auto entry = fresh(wish, tenant);
    entry->template_id = source.template_id;
    entry->alias = source.alias;
    give(*entry, source.defaults);
    BERTH_CO_CHECK(co_await make(entry, std::move(wish), std::move(source.snapshot), source.limits));
    BERTH_CO_CHECK(co_await begin_work(entry));
    co_return entry;
}

Task<Status> Sandboxes::start_work(EntryPtr entry)
{
    if (entry->start_cmd.empty()) co_return Status{};
    StartWish wish{.defaults = defaults_of(*entry), .env = entry->env, .patience = kReadyTime};
    wish.first = [&](const std::string& exec) {
        return notes_.write(entry->id, exec, {.tag = std::string(kStartTag)});
    };
    auto begun = co_await start_and_wait(ground_, entry->record, std::move(wish));
    if (begun) co_return Status{};
    co_return std::unexpected(std::move(begun).error().while_doing("starting what the template starts"));
}

/// The template's own program runs, and is ready, before anybody is told of the sandbox.
Task<Status> Sandboxes::begin_work(EntryPtr entry)
{
    auto begun = co_await start_work(entry);
    if (!begun) (void)co_await kill(entry, "its start command failed");
    co_return begun;
}

/// Every stream of it ends now, and whoever waits for it wakes.
void Sandboxes::cut(Entry& entry)
{
    ++entry.turns;
    if (entry.turn) entry.turn->cancel();
}

Task<Status> Sandboxes::kill(EntryPtr entry, std::string why)
{
    BERTH_CO_TRY(const auto held, co_await alone(entry));
    entry->dying = true;
    cut(*entry);
    log::info("sandbox ends", {{"id", entry->id}, {"sandbox", entry->record.id()}, {"why", why}});
    auto gone = co_await ground_.berth.lifecycle().destroy(entry->record.id());
    if (!gone && gone.error().code != Code::NotFound) {
        entry->dying = false;
        co_return std::unexpected(std::move(gone).error());
    }
    entries_.erase(entry->id);
    co_return co_await forget(*entry);
}

Task<Status> Sandboxes::pause(EntryPtr entry, bool keep_memory)
{
    BERTH_CO_TRY(const auto held, co_await alone(entry));
    if (entry->paused) co_return fail(Code::Conflict, "sandbox \"{}\" is already paused", entry->id);
    // To everybody from here on: who wants it to run waits until this is over.
    entry->paused = true;
    entry->kept_memory = keep_memory;
    auto& lifecycle = ground_.berth.lifecycle();
    Result<SandboxRecord> done = fail(Code::Internal, "nothing was done");
    if (keep_memory)
        done = co_await lifecycle.pause(entry->record.id());
    else
        done = co_await lifecycle.stop(entry->record.id(), kStopGrace);
    if (!done) {
        entry->paused = false;
        co_return std::unexpected(std::move(done).error());
    }
    entry->record = *std::move(done);
    entry->end = now();
    if (!keep_memory) entry->processes.clear();
    cut(*entry);
    co_return co_await save(*entry);
}

Task<Result<bool>> Sandboxes::resume(EntryPtr entry, bool keep_memory, std::chrono::seconds time)
{
    BERTH_CO_TRY(const auto held, co_await alone(entry));
    if (!entry->paused) {
        const auto end = now() + time;
        if (end > entry->end) {
            entry->end = end;
            BERTH_CO_CHECK(co_await save(*entry));
        }
        co_return false;
    }
    auto& lifecycle = ground_.berth.lifecycle();
    bool anew = !entry->kept_memory;
    if (!keep_memory && entry->kept_memory) {
        // Asked for as a reboot: what was frozen ends.
        BERTH_CO_TRY([[maybe_unused]] const auto thawed, co_await lifecycle.resume(entry->record.id()));
        BERTH_CO_TRY([[maybe_unused]] const auto ended,
                     co_await lifecycle.stop(entry->record.id(), kStopGrace));
        anew = true;
    }
    BERTH_CO_TRY(auto used, co_await lifecycle.use(entry->record.id()));
    if (used.tier == Tier::Attached) anew = false; // somebody else was faster
    entry->record = std::move(used.record);
    if (anew) {
        entry->processes.clear();
        entry->processes_known = false;
        co_await notes_.clear(entry->id);
        // Its files are there, whatever its program does.
        if (const auto begun = co_await start_work(entry); !begun)
            log::warn("a start command failed", {{"id", entry->id}, {"why", begun.error().line()}});
    }
    entry->paused = false;
    entry->timeout = time;
    entry->end = now() + time;
    BERTH_CO_CHECK(co_await save(*entry));
    co_return true;
}

Task<Status> Sandboxes::set_end(EntryPtr entry, WallTime end)
{
    BERTH_CO_TRY(const auto held, co_await alone(entry));
    entry->end = end;
    co_return co_await save(*entry);
}

Task<void> Sandboxes::expire(EntryPtr entry)
{
    const ScopeExit done([&] { expiring_.erase(entry->id); });
    Status ended;
    if (entry->auto_pause) {
        ended = co_await pause(entry, entry->auto_pause_memory);
        // Where nothing can be frozen, its files are what can be kept.
        if (!ended && ended.error().code == Code::Unsupported) ended = co_await pause(entry, false);
        if (!ended && ended.error().code == Code::Conflict) ended = {};
    } else {
        ended = co_await kill(entry, "its time is over");
    }
    if (ended || ended.error().code == Code::NotFound) co_return;
    entry->retry = now() + 5s;
    log::warn("a sandbox could not be ended", {{"id", entry->id}, {"why", ended.error().line()}});
}

Task<void> Sandboxes::sample(EntryPtr entry)
{
    auto where = co_await backend(*entry);
    if (!where) co_return;
    const auto used = co_await (*where)->usage(handle(*entry));
    if (!used) co_return;
    Measured measured{.memory = used->memory};
    if (auto* const able = dynamic_cast<Measures*>(*where))
        if (auto more = co_await able->measure(handle(*entry))) measured = *more;
    entry->samples.add(now(), system_clock().steady(), used->cpu, measured);
}

Metric Sandboxes::metric_of(const Entry& entry, const Samples::One& sample) const
{
    const auto shown = view(entry);
    Metric out;
    out.time = WallTime(std::chrono::seconds(sample.seconds));
    out.cpus = shown.cpus;
    out.cpu_percent = sample.cpu_percent;
    out.memory = std::uint64_t{sample.memory_kb} << 10;
    out.memory_total = std::uint64_t{shown.memory_mb} << 20;
    out.memory_cache = std::uint64_t{sample.cache_kb} << 10;
    out.disk = std::uint64_t{sample.disk_mb} << 20;
    const auto total = entry.samples.disk_total();
    out.disk_total = total ? total->count : std::uint64_t{shown.disk_mb} << 20;
    return out;
}

Task<void> Sandboxes::tick()
{
    const auto executor = co_await asio::this_coro::executor;
    const auto time = now();
    for (const auto& entry : all()) {
        if (entry->paused || entry->busy || time < entry->end || time < entry->retry) continue;
        if (!expiring_.insert(entry->id).second) continue;
        asio::co_spawn(executor, expire(entry), asio::detached);
    }
    if (sampling_ || system_clock().steady() < sampled_ + 5s) co_return;
    sampled_ = system_clock().steady();
    sampling_ = true;
    asio::co_spawn(executor, sample_all(), asio::detached);
}

Task<void> Sandboxes::sample_all()
{
    const ScopeExit done([&] { sampling_ = false; });
    for (const auto& entry : all()) {
        if (entry->busy || entry->dying || leaving_) continue;
        co_await reconcile(entry);
        if (!entry->paused && !entry->busy && !entry->dying) co_await sample(entry);
    }
}

/// Others may stop, pause or destroy what is ours: the command line, another server. What the store says
/// is what clients are told.
Task<void> Sandboxes::reconcile(EntryPtr entry)
{
    auto record = co_await ground_.berth.lifecycle().find(entry->record.id());
    if (record && record->state == State::Running && !entry->paused) {
        auto where = co_await backend(*entry);
        // Its keeper may be dead, and nobody has looked.
        if (where && !co_await (*where)->usage(handle(*entry)))
            record = co_await ground_.berth.lifecycle().refresh(entry->record.id());
    }
    if (entry->busy || entry->dying || !record) co_return;
    const bool frozen = record->state == State::Paused;
    const bool stopped = record->state == State::Stopped;
    if (record->state == State::Destroyed || record->state == State::Lost) {
        (void)co_await kill(entry, fmt::format("it is {}", to_string(record->state)));
    } else if ((frozen || stopped) && !entry->paused) {
        entry->record = *std::move(record);
        entry->paused = true;
        entry->kept_memory = frozen;
        if (stopped) entry->processes.clear();
        cut(*entry);
        (void)co_await save(*entry);
    } else if (record->state == State::Running && entry->paused) {
        entry->record = *std::move(record);
        entry->paused = false;
        entry->end = now() + entry->timeout;
        (void)co_await save(*entry);
    }
}

void Sandboxes::leave()
{
    leaving_ = true;
    for (const auto& [id, entry] : entries_) cut(*entry);
}

SandboxView Sandboxes::view(const Entry& entry) const
{
    SandboxView out;
    out.id = entry.id;
    out.template_id = entry.template_id;
    out.alias = entry.alias;
    out.token = entry.token;
    out.traffic_token = entry.traffic_token;
    out.domain = ground_.domain;
    out.paused = entry.paused;
    out.started = entry.started;
    out.end = entry.end;
    out.metadata = entry.metadata;
    out.auto_pause = entry.auto_pause;
    out.auto_resume = entry.auto_resume;
    out.ingress = entry.ingress;
    out.volumes = entry.volumes;
    // Nothing is promised that is not held: without limits it is the machine's.
    static const auto machine = machine_size();
    const auto& limits = entry.record.spec.policy.limits;
    out.cpus = limits.cpus ? static_cast<unsigned>(std::ceil(*limits.cpus)) : machine.cpus;
    out.memory_mb = limits.memory ? static_cast<unsigned>(limits.memory->count >> 20) : machine.memory_mb;
    out.disk_mb = machine.disk_mb;
    return out;
}

} // namespace berth::e2b

// The same work in another place: a snapshot that both backends know, an instance there, and only then the
// end of the one here.

#include <algorithm>

#include "base/hooks.hpp"
#include "base/strings.hpp"
#include "core/spec_hash.hpp"
#include "core/tells_image.hpp"
#include "lifecycle/events.hpp"
#include "lifecycle/lifecycle.hpp"
#include "lifecycle/move_mark.hpp"
#include "lifecycle/payload.hpp"
#include "lifecycle/stored.hpp"
#include "lifecycle/tar_snapshot.hpp"

namespace berth {

namespace {

bool holds(const std::vector<std::string>& kinds, const std::string& kind)
{
    return std::ranges::find(kinds, kind) != kinds.end();
}

/// The best kind that the one makes and the other restores. A root that is the host's own cannot be taken
/// along, whoever could carry it.
Result<std::string> common_kind(const Backend& from, const Backend& to, const SandboxSpec& spec,
                                const std::string& wanted)
{
    const auto made = made_by(from.capabilities());
    const auto restored = restored_by(to.capabilities());
    const bool of_host = spec.root.kind == Template::Kind::Host || spec.root.kind == Template::Kind::Live;
    std::vector<std::string> common;
    for (const auto& kind : made)
        if (holds(restored, kind) && !(of_host && kind == snapshot_kind::kRootTar)) common.push_back(kind);
    if (common.empty())
        return fail(Code::Unsupported, "no snapshot that backend {} makes ({}) can be restored by {} ({})",
                    from.name(), fmt::join(made, ", "), to.name(), fmt::join(restored, ", "));
    if (wanted.empty()) return common.front();
    if (holds(common, wanted)) return wanted;
    return fail(Code::Unsupported, "a sandbox cannot travel from {} to {} as '{}': {} can be used",
                from.name(), to.name(), printable(wanted, 60), fmt::join(common, ", "));
}

/// What a kind of snapshot holds, and what it does not.
void tell_fidelity(const SandboxSpec& spec, const std::string& kind, const std::string& tree,
                   const Backend& to, MoveAnswer& answer)
{
    if (kind == snapshot_kind::kWorkspaceTar) {
        answer.carried.push_back(tree + " with all in it: contents, modes, links, times");
        answer.left.push_back(
            fmt::format("every change outside of {}: installed programs, /etc, /tmp", tree));
        answer.left.emplace_back("extended attributes; hard links are files of their own now");
        if (spec.root.kind == Template::Kind::Host)
            answer.left.emplace_back("the programs of template host: they are the other machine's own");
    } else {
        answer.carried.emplace_back("the whole root file system: contents, owners, modes, links, times, the "
                                    "users' extended attributes");
        answer.left.push_back(fmt::format("holes of sparse files, where {} writes them out", to.name()));
    }
    for (const auto& mount : spec.mounts)
        answer.carried.push_back("the mount at " + mount.target + ", shown again");
    for (const auto& volume : spec.volumes)
        answer.carried.push_back("the volume at " + volume.target + ", shown again");
    answer.left.emplace_back("processes and memory");
    answer.left.emplace_back("the logs of its execs");
}

/// What its image asks for its processes, which is not in its files. A workspace lands on a template that has
/// an image of its own, or none.
void tell_image(const ImageDefaults& asked, const std::string& kind, const Backend& to, MoveAnswer& answer)
{
    ImageDefaults along = asked;
    const bool whole =
        kind != snapshot_kind::kWorkspaceTar && dynamic_cast<const TellsImage*>(&to) != nullptr;
    if (whole && !to.capabilities().can(Operation::Users)) {
        along.user.clear();
        if (const auto user = to_string(ImageDefaults{.env = {}, .workdir = {}, .user = asked.user});
            !user.empty())
            answer.left.push_back(
                fmt::format("what its image asks for: {}, for {} has one user here", user, to.name()));
    }
    const auto words = to_string(along);
    if (!words.empty()) (whole ? answer.carried : answer.left).push_back("what its image asks for: " + words);
}

json::Array texts(const std::vector<std::string>& all)
{
    json::Array out;
    for (const auto& one : all) out.emplace_back(one);
    return out;
}

} // namespace

/// Makes the next generation there and lets the record name it.
Task<Result<SandboxRecord>> Lifecycle::settle_at(SandboxRecord old, SandboxRecord next,
                                                 SnapshotRecord snapshot, MoveAnswer& answer)
{
    const std::string root = snapshot_directory();
    BERTH_CO_CHECK(co_await pool_.call([&] { return payload::check(root, snapshot); }));
    SnapshotSource source{
        .id = snapshot.id, .kind = snapshot.kind, .directory = fmt::format("{}/{}", root, snapshot.id)};
    BERTH_CO_TRY(auto* const there, co_await backend(next.backend));
    // One of a crashed try may be in the way.
    BERTH_CO_CHECK(co_await there->destroy(
        {.sandbox = next.id(), .native = fmt::format("{}.{}", next.id(), next.generation)}));
    BERTH_CO_TRY(next, co_await make_instance(std::move(next), std::move(source)));
    hooks::kill_point("move: made there");
    next.state = State::Running;
    next.changed = next.last_used = clock_.now();
    next.due = next.deadline();
    auto told =
        events::other(next, "berth.sandbox_moved", fmt::format("{} to {}", old.backend, next.backend));
    told.data["from"] = old.backend;
    told.data["to"] = next.backend;
    told.data["kind"] = snapshot.kind;
    told.data["bytes"] = snapshot.bytes;
    told.data["carried"] = texts(answer.carried);
    told.data["left"] = texts(answer.left);
    told.data["notes"] = texts(answer.notes);
    told.data["spec_hash"] = old.spec_hash; // by which it was found
    const Events all{events::started(next), std::move(told)};
    BERTH_CO_TRY(next, co_await stored([&](Store& store) { return store.update(next, all); }));
    hooks::kill_point("move: recorded");
    co_return next;
}

Task<Result<MoveAnswer>> Lifecycle::move(std::string ref, MoveWish wish)
{
    BERTH_CO_CHECK(backends_.registry().check(wish.backend));
    BERTH_CO_TRY(auto held, co_await find_locked(ref));
    if (held.record.state == State::Attached)
        co_return fail(Code::Denied, "sandbox {} is borrowed and cannot be moved", held.record.id());
    if (held.record.backend == wish.backend)
        co_return fail(Code::Conflict, "sandbox {} is on {} already", held.record.id(), wish.backend);
    BERTH_CO_TRY(const auto found, co_await look(held.record));
    BERTH_CO_TRY(auto record, co_await follow_state(std::move(held.record), found.state));
    if (record.state != State::Running && record.state != State::Stopped && record.state != State::Paused)
        co_return fail(Code::NotFound, "sandbox {} is {}: there is nothing to move", record.id(),
                       to_string(record.state));
    BERTH_CO_TRY(auto* const here, co_await backend(record.backend));
    BERTH_CO_TRY(auto* const there, co_await backend(wish.backend));
    MoveAnswer answer{.from = record.backend};
    BERTH_CO_TRY(answer.kind, common_kind(*here, *there, record.spec, wish.kind));
    // Of one that is stopped only the snapshot will know.
    const auto tree = co_await tar_snapshot::workspace_of(*here, handle(record), record.spec);
    tell_fidelity(record.spec, answer.kind, tree.value_or("its workspace"), *there, answer);
    if (auto* const tells = dynamic_cast<TellsImage*>(here)) {
        BERTH_CO_TRY(const auto asked, co_await tells->image_defaults(handle(record)));
        tell_image(asked, answer.kind, *there, answer);
    }
    const auto begun = clock_.steady();
    // What is written after the snapshot would be lost.
    const bool still = record.state == State::Running && here->capabilities().can(Operation::Pause);
    // While it stands still the mark stays: whoever looks at it next lets it go on.
    const auto go_on = [&](Error why) -> Task<Error> {
        if (!still) co_return why;
        auto done = co_await here->resume(handle(record));
        if (done) done = co_await stored([&](Store& store) { return move_mark::clear(store, record); });
        if (!done)
            why.message += fmt::format("; its commands may stand still until it is used or berth gc runs: {}",
                                       done.error().line());
        co_return why;
    };
    if (still) {
        BERTH_CO_CHECK(co_await stored([&](Store& store) { return move_mark::set(store, record); }));
        hooks::kill_point("move: to be paused");
        if (auto paused = co_await here->pause(handle(record)); !paused)
            co_return std::unexpected(co_await go_on(std::move(paused).error()));
        hooks::kill_point("move: paused");
    }
    if (record.state == State::Running && !still)
        answer.notes.emplace_back("what was written while it moved may be missing");
    SandboxRecord next = record;
    next.backend = wish.backend;
    ++next.generation;
    if (wish.root) next.spec.root = *wish.root;
    next.spec_hash = spec_hash(next.spec);
    Result<SandboxRecord> moved = fail(Code::Internal, "nothing was moved");
    auto taken = co_await take(record, {.kind = answer.kind, .note = "move", .internal = true});
    if (taken) {
        hooks::kill_point("move: taken");
        answer.bytes = taken->record.bytes;
        for (const auto& note : taken->notes) answer.notes.push_back("its snapshot: " + note);
        moved = co_await settle_at(record, std::move(next), taken->record, answer);
        if (auto dropped = co_await drop(taken->record, "moved"); !dropped)
            answer.notes.push_back("its snapshot is left: " + dropped.error().line());
    } else {
        moved = std::unexpected(std::move(taken).error());
    }
    if (!moved) {
        co_return std::unexpected(
            (co_await go_on(std::move(moved).error()))
                .while_doing(fmt::format("moving {} to {}", record.id(), wish.backend)));
    }
    answer.record = *std::move(moved);
    if (answer.kind == snapshot_kind::kWorkspaceTar)
        if (const auto now =
                co_await tar_snapshot::workspace_of(*there, handle(answer.record), answer.record.spec);
            now && tree && *now != *tree)
            answer.notes.push_back(fmt::format("what lay in {} lies in {} now", *tree, *now));
    if (auto gone = co_await here->destroy(handle(record)); !gone)
        answer.notes.push_back(
            fmt::format("what it was on {} is left for berth gc: {}", answer.from, gone.error().line()));
    if (still) (void)co_await stored([&](Store& store) { return move_mark::clear(store, record); });
    answer.elapsed = clock_.steady() - begun;
    co_return answer;
}

} // namespace berth

// The files of an instance as a layer that never changes again. Two ways lead there, and which one was
// taken is told: a rename where nothing runs, a copy of what is frozen where something does.

#include "backend/local/layer_snapshot.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "backend/local/boot.hpp"
#include "backend/local/keeper_process.hpp"
#include "backend/local/layer_manifest.hpp"
#include "backend/local/layer_merge.hpp"
#include "backend/local/look.hpp"
#include "backend/local/rest.hpp"
#include "backend/local/shared.hpp"
#include "backend/local/uppers.hpp"
#include "base/hooks.hpp"
#include "base/io.hpp"
#include "base/log.hpp"
#include "base/scope_exit.hpp"
#include "base/sha256.hpp"
#include "core/image_defaults.hpp"
#include "keeping/exec_logs.hpp"
#include "keeping/pause.hpp"
#include "sys/copy_tree.hpp"
#include "sys/remove_tree.hpp"

namespace berth::local {

namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 10s;
constexpr const char* kCopying = "copying"; ///< in the instance's directory while it is frozen for a copy

/// One snapshot while it is taken: the instance, locked, and what is known of it.
struct Taking {
    const StateDir& state;
    const std::string& native;
    int directory;
    Instance instance;
    UniqueFd pidfd; ///< of its keeper; empty when it is stopped
};

/// Whether a process lives in it: a command, or something that one left behind.
Result<bool> is_busy(const Taking& taking)
{
    if (paused_now(taking.directory).asked) return true; // it stays paused
    BERTH_TRY(auto keeper, KeeperClient::connect(taking.directory, "sock", kPatience));
    BERTH_TRY(const auto items, keeper.list());
    if (std::ranges::any_of(items, [](const auto& item) { return item.state < keeper::State::Exited; }))
        return true;
    // Orphans are the children of pid 1, which the keeper is.
    const pid_t pid = taking.instance.keeper.pid;
    const auto children = read_file(fmt::format("/proc/{}/task/{}/children", pid, pid));
    return children && !children->empty();
}

/// The layers become a frozen one, and new ones take their place. The record that is written first tells
/// where the files may be, and `groups` that are going to be made; the caller writes the next one.
/// bring_to_rest() finishes what a killed caller began.
Status freeze(Taking& taking, const std::string& layer, const sys::GroupPlaces& groups)
{
    Instance& instance = taking.instance;
    instance.stopped = true;
    instance.keeper = {};
    instance.groups = groups;
    instance.slot.reset();
    instance.freezing = layer;
    BERTH_CHECK(write_instance(taking.directory, instance));
    hooks::kill_point("snapshot: recorded");
    BERTH_CHECK(freeze_uppers(taking.state, taking.directory, layer));
    hooks::kill_point("snapshot: layer named");
    instance.stack.insert(instance.stack.begin(), layer);
    BERTH_CHECK(make_uppers(taking.state, taking.directory, instance.stack));
    hooks::kill_point("snapshot: layers made");
    instance.freezing.clear();
    return {};
}

/// Ends its keeper, in which nothing runs, and starts another on the new stack. Everything that could
/// refuse the start is asked before.
Status freeze_running(Taking& taking, const std::string& layer, SnapshotTaken& taken)
{
    Instance& instance = taking.instance;
    const bool host = instance.spec.root.kind == Template::Kind::Host;
    BERTH_TRY(auto grounds,
              prepare_kept(taking.state, instance.spec,
                           {.known = host ? nullptr : &instance.layers, .pins = &instance.pins}));
    BERTH_CHECK(check_usr(taking.state, taking.native, instance, grounds.prepared->plan));
    const auto places = groups_for(taking.native, grounds);
    const auto before = instance.groups;
    // Nothing in it writes any more; while it dies the files get their new names.
    kill_keeper(taking.pidfd.get());
    const auto frozen = freeze(taking, layer, places);
    BERTH_CHECK(end_keeper(taking.pidfd.get()));
    hooks::kill_point("snapshot: keeper ended");
    BERTH_CHECK(end_orphan(taking.directory));
    // Usually they are where they would be made again.
    if (before != places && !before.empty()) BERTH_CHECK(sys::KeptGroup::remove(before));
    BERTH_CHECK(settle_logs(taking.native, taking.directory));
    // A disk that is full, say: then it runs on with the files where they were.
    if (!frozen) BERTH_CHECK(bring_to_rest(taking.state, taking.native, taking.directory, instance));
    auto booted = boot(taking.state, taking.native, taking.directory, instance, std::move(grounds),
                       frozen ? Recorded::WithGroups : Recorded::Yes);
    // The snapshot is there all the same, and the sandbox with all its files.
    if (!booted) {
        BERTH_CHECK(write_instance(taking.directory, instance));
        taken.notes.push_back(
            fmt::format("the sandbox could not be started again: {}", booted.error().line()));
    }
    return frozen;
}

Result<sys::TreeCopied> copy_uppers(const Taking& taking, int to)
{
    constexpr int kDirectory = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW;
    sys::TreeCopied all;
    const UniqueFd files(::openat(taking.directory, "fs", kDirectory));
    if (!files) return fail_errno("opening the layers of {}", taking.native);
    BERTH_TRY(const auto parts, list_parts(files.get()));
    for (const auto& name : parts) {
        const UniqueFd from(::openat(files.get(), name.c_str(), kDirectory));
        if (!from) return fail_errno("opening the layer {} of {}", name, taking.native);
        BERTH_TRY(const auto copied, sys::copy_tree(from.get(), to, name));
        all.files += copied.files;
        all.bytes += copied.bytes;
    }
    return all;
}

/// Every process stands still from before the first byte to after the last: the copy is one moment.
Status copy_running(Taking& taking, const std::string& layer, SnapshotTaken& taken)
{
    const auto no_freezer = [&](std::string_view why) {
        return fail(
            Code::Unsupported,
            "commands run in {} and cannot be frozen for a snapshot: {}; stop it first, or wait until no "
            "command runs",
            taking.native, why);
    };
    if (taking.instance.groups.empty()) return no_freezer("it has no control groups");
    BERTH_TRY(auto group, sys::KeptGroup::open(taking.instance.groups));
    if (!group.execs().can_freeze()) return no_freezer("there is no freezer");
    BERTH_TRY(const auto layers, open_layers(taking.state));
    const std::string making = ".new-" + layer;
    if (::mkdirat(layers.get(), making.c_str(), 0755) != 0) return fail_errno("making the layer {}", layer);
    ScopeExit undo([&] { (void)sys::remove_tree(layers.get(), making); });
    const UniqueFd to(::openat(layers.get(), making.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!to) return fail_errno("opening the layer {}", layer);
    {
        const UniqueFd mark(
            ::openat(taking.directory, kCopying, O_CREAT | O_WRONLY | O_CLOEXEC | O_NOFOLLOW, 0600));
        if (!mark) return fail_errno("recording the copy of {}", taking.native);
        ScopeExit unmark([&] { ::unlinkat(taking.directory, kCopying, 0); });
        BERTH_TRY(const auto still, Stillness::begin(taking.directory, group.execs()));
        hooks::kill_point("snapshot: frozen");
        BERTH_TRY(const auto copied, copy_uppers(taking, to.get()));
        hooks::kill_point("snapshot: copied");
        taken.bytes = copied.bytes;
    }
    taken.live_copy = true;
    if (::renameat2(layers.get(), making.c_str(), layers.get(), layer.c_str(), RENAME_NOREPLACE) != 0)
        return fail_errno("naming the layer {}", layer);
    undo.dismiss();
    hooks::kill_point("snapshot: copy named");
    return {};
}

std::vector<std::string> notes_of(const Instance& instance, bool live)
{
    std::vector<std::string> notes{live ? "memory and processes are not part of it"
                                        : "memory and processes are not part of it; nothing ran"};
    const auto is_copy = [](const Mount& mount) { return mount.mode == Mount::Mode::Copy; };
    if (!std::ranges::all_of(instance.spec.mounts, is_copy) || !instance.spec.volumes.empty())
        notes.emplace_back("mounts, workspaces and volumes of the host are not part of it");
    if (std::ranges::any_of(instance.spec.mounts, is_copy))
        notes.emplace_back("of a copy of a host directory it has what was changed in it");
    return notes;
}

Result<SnapshotTaken> answer(const LayerManifest& manifest, const std::string& text, SnapshotTaken taken)
{
    taken.kind = snapshot_kind::kLayer;
    taken.file = "manifest";
    taken.sha256 = sha256_hex(text);
    taken.live_copy = manifest.live_copy;
    taken.bytes = manifest.bytes;
    return taken;
}

/// Only where the stack is about to be mounted anew. A disk that cannot link, say, is no reason for no
/// snapshot.
void merge_if_deep(Taking& taking)
{
    if (taking.instance.stack.size() < kMergeNow) return;
    if (auto merged = merge_stack(taking.state, taking.instance); !merged)
        log::warn(
            "the layers of a sandbox cannot be merged",
            {{.name = "sandbox", .value = taking.native}, {.name = "error", .value = merged.error().line()}});
}

Result<SnapshotTaken> take(Taking& taking, const SnapshotRequest& request)
{
    Instance& instance = taking.instance;
    if (instance.in_memory || instance.spec.root.kind == Template::Kind::Live)
        return fail(Code::Unsupported,
                    "sandbox {} has no files of its own on the disk: there is nothing to keep",
                    taking.native);
    // Until the manifest names them, only this lock keeps the collector from the layers.
    BERTH_TRY(const auto layers, lock_layers(taking.state, Use::Shared));
    const std::string layer = make_layer_id();
    SnapshotTaken taken;
    LayerManifest manifest{.snapshot = request.id,
                           .sandbox = instance.spec.id,
                           .created = system_clock().now(),
                           .root = to_string(instance.spec.root),
                           .identity = instance.layers.identity,
                           .stack = instance.stack};
    if (!taking.pidfd) {
        BERTH_TRY([[maybe_unused]] const auto rest,
                  bring_to_rest(taking.state, taking.native, taking.directory, instance));
        merge_if_deep(taking);
        manifest.stack = instance.stack;
        BERTH_CHECK(check_depth(instance.stack.size() + 1));
        BERTH_CHECK(freeze(taking, layer, {}));
        BERTH_CHECK(write_instance(taking.directory, instance));
        hooks::kill_point("snapshot: stacked");
    } else {
        BERTH_TRY(const auto files, lock_files(taking.directory, Use::Alone));
        BERTH_TRY(auto first, Turn::take(taking.directory, Turn::Kind::Freeze));
        std::optional<Turn> turn(std::move(first));
        BERTH_TRY(const bool busy, is_busy(taking));
        if (!busy) merge_if_deep(taking);
        manifest.stack = instance.stack;
        BERTH_CHECK(check_depth(instance.stack.size() + 1));
        if (busy) {
            turn.reset(); // the stillness takes it itself; what starts between the two is frozen with the
                          // rest
            BERTH_CHECK(copy_running(taking, layer, taken));
        } else {
            BERTH_CHECK(freeze_running(taking, layer, taken));
        }
    }
    manifest.stack.insert(manifest.stack.begin(), layer);
    manifest.live_copy = taken.live_copy;
    manifest.bytes = taken.bytes;
    auto notes = notes_of(instance, taken.live_copy);
    taken.notes.insert(taken.notes.begin(), notes.begin(), notes.end());
    if (const auto& image = instance.layers.image)
        BERTH_CHECK(keep_image_defaults(request.directory,
                                        {.env = image->env, .workdir = image->workdir, .user = image->user}));
    // The sandbox runs again by now. A manifest on the disk names what is on the disk.
    BERTH_TRY(const auto text, write_manifest(request.directory, manifest, taking.directory));
    hooks::kill_point("snapshot: named");
    return answer(manifest, text, std::move(taken));
}

} // namespace

Result<SnapshotTaken> take_layer(const StateDir& state, const std::string& native,
                                 const SnapshotRequest& request)
{
    const auto begun = std::chrono::steady_clock::now();
    auto made = read_manifest(request.directory);
    if (made) {
        if (made->snapshot != request.id)
            return fail(Code::Conflict, "{} holds another snapshot, {}", request.directory, made->snapshot);
        BERTH_CHECK(check_stack(state, made->stack));
        BERTH_TRY(const auto text, read_file(request.directory + "/manifest"));
        return answer(*made, text, {});
    }
    if (made.error().code != Code::NotFound) return std::unexpected(std::move(made).error());
    BERTH_TRY(const auto directory, lock_instance(state, native));
    BERTH_TRY(auto instance, read_instance(directory.get()));
    BERTH_TRY(auto pidfd, open_keeper(instance));
    Taking taking{.state = state,
                  .native = native,
                  .directory = directory.get(),
                  .instance = std::move(instance),
                  .pidfd = std::move(pidfd)};
    auto taken = take(taking, request);
    if (!taken)
        return std::unexpected(std::move(taken).error().while_doing("taking a snapshot of " + native));
    taken->elapsed = std::chrono::steady_clock::now() - begun;
    return taken;
}

void end_killed_copy(const StateDir& state, const std::string& native, int directory)
{
    if (::faccessat(directory, kCopying, F_OK, AT_SYMLINK_NOFOLLOW) != 0) return;
    // Whoever copies has the lock; who had it and is gone left the mark and the frozen.
    const auto locked = lock_instance(state, native, 0ms);
    if (!locked) return;
    const auto instance = read_instance(directory);
    if (instance && !instance->groups.empty())
        if (auto group = sys::KeptGroup::open(instance->groups))
            if (const auto paused = look_paused(directory, group->execs()); paused && !paused->asked)
                (void)group->execs().thaw();
    ::unlinkat(directory, kCopying, 0);
}

} // namespace berth::local

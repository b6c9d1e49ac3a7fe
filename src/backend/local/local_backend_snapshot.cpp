// Snapshots of the local backend: frozen layers, which stay where they are.

#include "backend/local/layer_collect.hpp"
#include "backend/local/layer_manifest.hpp"
#include "backend/local/layer_merge.hpp"
#include "backend/local/layer_snapshot.hpp"
#include "backend/local/local_backend.hpp"
#include "backend/local/parked.hpp"
#include "backend/local/shared.hpp"
#include "backend/local/strays.hpp"
#include "keeping/native.hpp"
#include "sys/tree_size.hpp"

namespace berth::local {

Task<Result<SnapshotTaken>> LocalBackend::snapshot(SandboxHandle sandbox, SnapshotRequest request)
{
    co_return co_await pool_.call([&]() -> Result<SnapshotTaken> {
        BERTH_CHECK(check_native(sandbox.native));
        if (request.kind.empty() || request.kind == snapshot_kind::kLayer)
            return take_layer(state_, sandbox.native, request);
        return refuse_kind("take", request.kind, capabilities_.snapshots);
    });
}

/// The layers may be part of other snapshots and of sandboxes: collect() finds those that are of none.
Task<Status> LocalBackend::drop_snapshot(SnapshotSource snapshot)
{
    if (snapshot.kind == snapshot_kind::kLayer) co_return Status{};
    co_return refuse_kind("drop", snapshot.kind, capabilities_.snapshots);
}

/// Of the layer that was made for it: those below it are of the snapshots before, or of its sandbox.
Task<Result<std::uint64_t>> LocalBackend::weigh(SnapshotSource snapshot)
{
    co_return co_await pool_.call([&]() -> Result<std::uint64_t> {
        if (snapshot.kind != snapshot_kind::kLayer)
            return refuse_kind("weigh", snapshot.kind, capabilities_.snapshots);
        BERTH_TRY(const auto manifest, read_manifest(snapshot.directory));
        BERTH_CHECK(check_stack(state_, manifest.stack));
        BERTH_TRY(const auto layers, open_layers(state_));
        return sys::tree_size(layers.get(), manifest.stack.front());
    });
}

Task<Result<Collected>> LocalBackend::collect(std::string snapshots, bool dry_run)
{
    co_return co_await pool_.call([&]() -> Result<Collected> {
        BERTH_TRY(auto strays, end_strays(state_, dry_run));
        BERTH_TRY(const auto parked, remove_left_parked(state_, dry_run));
        strays.insert(strays.end(), parked.begin(), parked.end());
        if (!dry_run) merge_resting(state_);
        BERTH_TRY(auto out, collect_layers(state_, snapshots, dry_run));
        out.objects.insert(out.objects.begin(), strays.begin(), strays.end());
        return out;
    });
}

} // namespace berth::local

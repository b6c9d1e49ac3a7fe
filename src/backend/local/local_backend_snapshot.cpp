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

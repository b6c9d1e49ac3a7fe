// How much of the disk snapshots take. One that is taken by renaming knows nothing of it, and stays quick;
// whoever asks has it counted, once: what was kept never changes.

#include "core/weighs_snapshots.hpp"
#include "lifecycle/lifecycle.hpp"
#include "lifecycle/stored.hpp"

namespace berth {

Task<SnapshotRecord> Lifecycle::weighed(SnapshotRecord one)
{
    if (one.bytes != 0 || one.internal) co_return one;
    const auto where = co_await backend(one.backend);
    auto* const weighs = where ? dynamic_cast<WeighsSnapshots*>(*where) : nullptr;
    if (weighs == nullptr) co_return one;
    const SnapshotSource source{
        .id = one.id, .kind = one.kind, .directory = fmt::format("{}/{}", snapshot_directory(), one.id)};
    // What cannot be counted or written down now stays unknown; the others are told all the same.
    const auto bytes = co_await weighs->weigh(source);
    if (!bytes) co_return one;
    one.bytes = *bytes;
    (void)co_await stored([&](Store& store) { return store.size_snapshot(one.id, one.bytes); });
    co_return one;
}

Task<Result<std::vector<SnapshotRecord>>> Lifecycle::snapshots(std::string sandbox)
{
    BERTH_CO_TRY(auto all, co_await stored([&](Store& store) { return store.snapshots(sandbox); }));
    for (auto& one : all) one = co_await weighed(std::move(one));
    co_return all;
}

} // namespace berth

#pragma once

#include "base/blocking_pool.hpp"
#include "core/backend.hpp"
#include "core/store.hpp"

/// While a sandbox moves, its source is paused so that nothing written is missed. The store says so before it
/// is: whoever finds it paused after the mover was killed lets it go on.
namespace berth::move_mark {

/// Before the pause.
[[nodiscard]] Status set(Store& store, const SandboxRecord& source);
/// When it goes on, or is gone.
[[nodiscard]] Status clear(Store& store, const SandboxRecord& source);

/// Of a sandbox whose lock we hold, so that nobody is moving it: what a dead mover paused goes on, and
/// `found` says so. Any other pause is left alone.
Task<Status> undo(Store& store, BlockingPool& pool, Backend& where, SandboxRecord record, Found& found);

} // namespace berth::move_mark

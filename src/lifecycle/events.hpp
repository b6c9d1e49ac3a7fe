#pragma once

#include <string>
#include <string_view>

#include "core/exec_spec.hpp"
#include "core/snapshot.hpp"
#include "core/store.hpp"

/// Lines of the ledger. Types and fields are those exo has; what it lacks begins with "berth.".
namespace berth::events {

inline constexpr std::string_view kLost = "berth.sandbox_lost";

[[nodiscard]] LedgerEvent created(const SandboxRecord& record);
/// `snapshot` is empty unless it was made from one.
[[nodiscard]] LedgerEvent started(const SandboxRecord& record, std::string_view snapshot = {});
[[nodiscard]] LedgerEvent stopped(const SandboxRecord& record);
/// Of an instance that somebody else made.
[[nodiscard]] LedgerEvent attached(const SandboxRecord& record);
[[nodiscard]] LedgerEvent detached(const SandboxRecord& record);
[[nodiscard]] LedgerEvent snapshotted(const SnapshotRecord& snapshot);
[[nodiscard]] LedgerEvent exec_started(const ExecRecord& exec, const ExecSpec& spec);
[[nodiscard]] LedgerEvent exec_ended(const ExecRecord& exec);
/// Any other: "berth.sandbox_lost", with a reason where there is one.
[[nodiscard]] LedgerEvent other(const SandboxRecord& record, std::string_view type,
                                std::string_view reason = {});

} // namespace berth::events

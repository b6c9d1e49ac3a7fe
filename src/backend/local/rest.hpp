#pragma once

#include <optional>
#include <string>

#include "backend/local/instance.hpp"

namespace berth::local {

/// How the files of an instance lie there now.
struct Rest {
    /// The machine went down: what was written since then may be missing or damaged.
    std::optional<WallTime> unsynced_since;
};

/// Finishes what was under way in an instance whose recorded keeper is gone: a stop or a start that was
/// killed, a keeper that was, a machine that went down. Afterwards nothing of it runs, its groups are
/// gone, its logs are complete, its files are on the disk and can be mounted again, and the record says so.
/// Nothing is ever thrown away. The directory is locked by the caller. Doing it twice is harmless.
[[nodiscard]] Result<Rest> bring_to_rest(const StateDir& state, const std::string& native, int directory,
                                         Instance& instance);

/// A keeper that is not recorded: its starter was killed. It answers on the socket all the same, and is
/// stopped; then the socket goes.
[[nodiscard]] Status end_orphan(int directory);

} // namespace berth::local

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backend/local/layers.hpp"
#include "backend/local/plan.hpp"
#include "base/clock.hpp"
#include "core/backend.hpp"
#include "sys/cgroup.hpp"

namespace berth::local {

/// What a process must know of an instance that another one made, to go on with it. In the instance's
/// directory, written when its keeper answers for the first time and with each change after that; a
/// reader sees the old one or the new. An instance without a record was never finished.
struct Instance {
    SandboxSpec spec;
    InstanceLabels labels;
    sys::Maker keeper;
    std::string boot; ///< of the machine: numbers of processes begin anew with each
    IdMode mode = IdMode::Own;
    std::optional<unsigned> slot; ///< of its id range, when mapped
    RootLayers layers;
    Pins pins;   ///< of its mounts, as they were when it was made
    Stack stack; ///< frozen layers between the template and the instance's own, topmost first
    /// The layer that its own files are becoming. The name they have tells how far that came.
    std::string freezing;
    NetMode net = NetMode::New;
    sys::GroupPlaces groups;                ///< empty: it has none
    bool in_memory = false;                 ///< its files are gone when its keeper ends
    bool stopped = false;                   ///< no keeper is meant to run
    WallTime synced{};                      ///< when all that was written was last brought to the disk
    std::optional<WallTime> unsynced_since; ///< the machine went down, and nobody was told yet
};

/// Whether the record is on the disk when the call returns. Otherwise its bytes are on their way there,
/// and the name follows with the file system's next commit: a few seconds.
enum class Durable { No, Yes };

[[nodiscard]] Status write_instance(int directory, const Instance& instance, Durable durable = Durable::No);
/// NotFound: it was never finished.
[[nodiscard]] Result<Instance> read_instance(int directory);

/// The same for an instance that is nobody's yet (parked.hpp), under a name of its own: to everybody who asks
/// for an instance it was never finished. Marked before anything else of it exists; where its record will be
/// there is a link to nothing until then.
[[nodiscard]] Status mark_parked(int directory);
/// That link. It has no name any more as soon as the record is written: one step, which whoever has this sees
/// (the keeper, when its maker is gone).
[[nodiscard]] Result<UniqueFd> open_unclaimed(int directory);
[[nodiscard]] Status write_parked(int directory, const Instance& instance);
/// NotFound: it was never parked, or its keeper does not answer yet. It stays when the instance has a record
/// of its own, which is the one that counts then.
[[nodiscard]] Result<Instance> read_parked(int directory);
[[nodiscard]] bool is_parked(int directory);

[[nodiscard]] std::string boot_id();

} // namespace berth::local

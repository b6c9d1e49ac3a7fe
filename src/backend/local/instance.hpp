#pragma once

#include <optional>
#include <string>

#include "backend/local/plan.hpp"
#include "sys/cgroup.hpp"

namespace berth::local {

/// What a process must know of a sandbox that another one made, to go on with it. In the sandbox's
/// directory, written when its keeper answers; not synced, for it means nothing after the machine went down.
struct Instance {
    SandboxSpec spec;
    sys::Maker keeper;
    std::string boot; ///< of the machine: numbers of processes begin anew with each
    IdMode mode = IdMode::Own;
    std::optional<unsigned> slot; ///< of its id range, when mapped
    RootLayers layers;
    NetMode net = NetMode::New;
    sys::GroupPlaces groups; ///< empty: it has none
};

[[nodiscard]] Status write_instance(int directory, const Instance& instance);
/// NotFound: it was never finished.
[[nodiscard]] Result<Instance> read_instance(int directory);

[[nodiscard]] std::string boot_id();

} // namespace berth::local

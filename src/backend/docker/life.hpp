#pragma once

#include <chrono>
#include <string>

#include "backend/docker/engine.hpp"
#include "backend/docker/holdings.hpp"
#include "backend/docker/images.hpp"
#include "backend/docker/instance.hpp"
#include "core/backend.hpp"

/// Beginnings and ends of instances. Each works from the record and under the lock of the directory, whoever
/// made the instance: no process of ours has a better claim to it than another.
namespace berth::docker {

struct Where {
    const InstanceDirs& dirs;
    const Engine& engine;
};

/// Idempotent by id and generation; the same with another specification is a Conflict.
[[nodiscard]] Result<SandboxHandle> make_instance(const Where& where, const CreateRequest& request);
[[nodiscard]] Status destroy_instance(const Where& where, const std::string& native);
[[nodiscard]] Status stop_instance(const Where& where, const std::string& native,
                                   std::chrono::milliseconds grace);
[[nodiscard]] Result<Started> start_instance(const Where& where, const std::string& native);

/// Ends a pause of the engine's own; none is success.
[[nodiscard]] Status unpause_instance(const Where& where, const std::string& native);

/// One log, in whatever state the instance is: an exec that no keeper knows gets its end, with an unknown
/// status. Then it is on the disk.
[[nodiscard]] Status settle_log(const Where& where, const std::string& native, const std::string& exec);

/// How an instance is now. Gone is an answer; an error means that the engine could not be asked.
[[nodiscard]] Result<Found> look_at(const Where& where, const std::string& native);
/// The same of an engine on another machine.
[[nodiscard]] Result<Found> look_far(const Where& where, const std::string& native);
using Look = Result<Found> (*)(const Where& where, const std::string& native);
/// Every container with our labels, and what is left of those that are gone.
[[nodiscard]] Result<std::vector<Found>> look_at_all(const Where& where);
[[nodiscard]] Result<std::vector<Found>> look_at_all(const Where& where, Look look);

/// Refuses to take another engine's word for what this one has: DOCKER_HOST or a context may have changed.
[[nodiscard]] Status same_engine(const Engine& engine, const Instance& instance);

} // namespace berth::docker

#pragma once

#include <string>
#include <vector>

#include "backend/docker/container.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "core/backend.hpp"
#include "keeping/mount_source.hpp"

namespace berth::docker {

/// What a process must know of an instance that another one made. In the instance's directory, written when
/// its keeper answers for the first time; an instance without a record was never finished.
struct Instance {
    SandboxSpec spec;
    InstanceLabels labels;
    std::vector<keeping::Pin> pins; ///< of its mounts, as they were when it was made
    std::string container;          ///< its id
    std::string image;              ///< the id of what it runs
    ImageDefaults defaults;
    int pid = 0; ///< of the keeper, as this machine numbers it
    std::uint64_t start_time = 0;
    std::string boot;
    std::string engine;   ///< that has the container, by its own word
    bool finished = true; ///< nothing has run in one that is not
    std::string inside;   ///< of a container that somebody else made: where in it the keeper was put
    bool owned = true;    ///< ours to stop, start and remove: all but borrowed ones
    std::string former;   ///< the container that this one goes on from, while that is still there
};

/// The directories of this backend's instances: `docker/<native>` in the state directory. In each of them:
/// `instance`, the record; `exec`, the logs; `in`, shown inside the container, with the keeper and its
/// socket. The lock of the directory belongs to whoever makes, starts, stops or removes it.
class InstanceDirs {
public:
    /// Makes what is missing.
    [[nodiscard]] static Result<InstanceDirs> open(const std::string& state_path);

    [[nodiscard]] int fd() const noexcept { return all_.get(); }
    [[nodiscard]] std::string path(const std::string& native) const { return path_ + "/" + native; }
    [[nodiscard]] Result<std::vector<std::string>> names() const;

    /// NotFound when there is none; Invalid when that is no name of one.
    [[nodiscard]] Result<UniqueFd> open(const std::string& native, int flags) const;
    /// With its lock held by the descriptor. Unavailable: somebody else has it for too long.
    [[nodiscard]] Result<UniqueFd> lock(const std::string& native) const;
    /// The same, made when it is not there.
    [[nodiscard]] Result<UniqueFd> make(const std::string& native) const;
    /// Puts the keeper and empty places for its socket and logs there; what was there is gone.
    [[nodiscard]] Status furnish(int directory) const;
    [[nodiscard]] Status remove(const std::string& native) const;

private:
    InstanceDirs(std::string path, UniqueFd all) : path_(std::move(path)), all_(std::move(all)) {}
    std::string path_;
    UniqueFd all_;
};

[[nodiscard]] Status write_instance(int directory, const Instance& instance);
/// NotFound: it was never finished.
[[nodiscard]] Result<Instance> read_instance(int directory);

[[nodiscard]] std::string boot_id();

} // namespace berth::docker

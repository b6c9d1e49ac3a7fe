#pragma once

#include <string>

#include "backend/docker/engine.hpp"
#include "core/capabilities.hpp"
#include "core/sandbox_spec.hpp"

namespace berth::docker {

/// What an engine says it can limit, and what this process can do in its containers.
struct EngineFacts {
    bool memory = false;
    bool pids = false;
    bool cpus = false;
    bool user_namespaces = false; ///< its containers' ids are not this machine's
    bool walls = false;           ///< commands can be started with walls of their own
    bool asked = true;            ///< by its own word; else what engines usually can, until it is asked
    bool far = false;             ///< it is on another machine
    std::string machine{};        ///< that it runs on, where that is not this one by name and kernel
};
[[nodiscard]] bool can_wall();
[[nodiscard]] Result<EngineFacts> ask_facts(const Engine& engine);

[[nodiscard]] policy::Holdings hold(const EngineFacts& facts);

/// Refuses, naming each, what the engine cannot hold of a specification.
[[nodiscard]] Status admit(const SandboxSpec& spec, const policy::Holdings& holdings);

} // namespace berth::docker

#pragma once

#include "backend/docker/life.hpp"
#include "keeping/mount_source.hpp"

/// An engine resolves the source of a mount by its path, again at each start. So its path is looked at
/// before, and what the container shows after that, before anything of the sandbox runs in it.
namespace berth::docker {

/// Before the engine is asked. Refuses what is not what it was pinned to; what would show the state
/// directory, where keepers listen and the store lies, or the socket of an engine, for an engine cannot hide
/// a part of what it mounts; a source that somebody inside could put a link in the place of; a mount in
/// another whose place the engine would make on the host. Returns the pins as they are in this boot of the
/// machine.
[[nodiscard]] Result<std::vector<keeping::Pin>> check_mounts(const Where& where, const SandboxSpec& spec,
                                                             const std::vector<keeping::Pin>& pins);

/// Whether the container of process `pid` shows at each target what its mount was pinned to, whoever started
/// it.
[[nodiscard]] Status check_shown(int pid, const SandboxSpec& spec, const std::vector<keeping::Pin>& pins);

/// What the container shows at a place, links of its root followed as the engine did when it mounted there.
[[nodiscard]] Result<UniqueFd> open_shown(int root, const std::string& target);

} // namespace berth::docker

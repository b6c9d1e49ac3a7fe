#pragma once

#include "backend/docker/life.hpp"

/// The container of an instance, by the name that only it may have.
namespace berth::docker {

/// The one of this name or id, if it is the instance's own; empty when there is none. Conflict: it is
/// somebody else's.
[[nodiscard]] Result<std::string> own_container(const Engine& engine, const std::string& name,
                                                const std::string& native);
[[nodiscard]] Result<std::string> create_container(const Engine& engine, const std::string& native,
                                                   const ContainerWish& wish);
[[nodiscard]] Status start_container(const Engine& engine, const std::string& id);
/// Of what the engine keeps for a container without a name: another one may have it now.
enum class Volumes { Remove, Leave };
/// Gone already is success.
[[nodiscard]] Status remove_container(const Engine& engine, const std::string& id,
                                      Volumes volumes = Volumes::Remove);
/// The one that was recorded, or the one that has the instance's name and our label: an image made of ours
/// hands its labels on, so labels alone make nothing ours.
[[nodiscard]] Status remove_own(const Engine& engine, const std::string& native, const std::string& recorded);

/// What the record says is there: the same again, or a conflict. Nothing: there is none.
[[nodiscard]] Result<std::optional<SandboxHandle>>
find_made(const Where& where, int directory, const CreateRequest& request, const std::string& native);

} // namespace berth::docker

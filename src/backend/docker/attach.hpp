#pragma once

#include "backend/docker/life.hpp"
#include "core/tells_borrowed.hpp"

/// Containers that somebody else made. They get a keeper beside their own processes, put in through the
/// engine. Borrowed ones are never stopped or removed by us.
namespace berth::docker {

/// By a name, an id or a beginning of one; or by the name of an instance of ours. Conflict when it does not
/// run. Asking again finds the same.
[[nodiscard]] Result<SandboxHandle> attach_container(const Where& where, const std::string& named);

/// The container of an instance that was attached, as the engine has it now.
[[nodiscard]] Result<Borrowed> tell_borrowed(const Where& where, const std::string& native);

/// Puts a keeper into the container of an instance that was attached, and notes its process.
[[nodiscard]] Status insert_keeper(const Engine& engine, int directory, Instance& instance);

/// Ends the keeper and removes what we put there, of an instance that has some.
[[nodiscard]] Status remove_keeper(const Engine& engine, const Instance& instance);

/// The same, and the instance is nobody's any more; the container goes on. An instance that we made, and one
/// that is not there, is left alone.
[[nodiscard]] Status release_container(const Where& where, const std::string& native);

/// The directory of the keeper's socket, which is inside of the container with the instance's process. One
/// that was made by an older berth has it in its own directory.
[[nodiscard]] Result<UniqueFd> keeper_place(int directory, const Instance& instance);

} // namespace berth::docker

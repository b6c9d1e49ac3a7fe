#pragma once

#include <optional>

#include "backend/local/instance.hpp"
#include "base/exit_status.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "keeping/keeper_client.hpp"

namespace berth::local {

/// A descriptor of the recorded keeper, and of no other process that has its number now. Empty: it is
/// gone, by the kernel's word.
[[nodiscard]] Result<UniqueFd> open_keeper(const Instance& instance);

/// True while it lives. One that is dead and our own child is reaped.
[[nodiscard]] bool keeper_lives(int pidfd);

/// A conversation with it, which has answered; nothing: it is dead. One that is just being killed hangs up
/// before that, and is waited for.
[[nodiscard]] Result<std::optional<keeping::KeeperClient>> reach_keeper(int directory, int pidfd);

/// How one that we have just started ended, where it has: it is why it does not answer.
[[nodiscard]] std::optional<ExitStatus> end_of_keeper(int pidfd);

/// Kills it, and with it everything inside; Unavailable when it does not end. Its mounts are gone
/// when this returns.
[[nodiscard]] Status end_keeper(int pidfd);
/// The first half of it, for who has something to do meanwhile.
void kill_keeper(int pidfd);

} // namespace berth::local

#pragma once

#include "backend/local/instance.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace berth::local {

/// A descriptor of the recorded keeper, and of no other process that has its number now. Empty: it is
/// gone, by the kernel's word.
[[nodiscard]] Result<UniqueFd> open_keeper(const Instance& instance);

/// True while it lives. One that is dead and our own child is reaped.
[[nodiscard]] bool keeper_lives(int pidfd);

/// Kills it, and with it everything inside; Unavailable when it does not end. Its mounts are gone
/// when this returns.
[[nodiscard]] Status end_keeper(int pidfd);
/// The first half of it, for who has something to do meanwhile.
void kill_keeper(int pidfd);

} // namespace berth::local

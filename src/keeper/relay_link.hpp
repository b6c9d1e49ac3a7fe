#pragma once

#include "keeper/sys.hpp"
#include "keeper/wire.hpp"

/// Whom the relay talks to: its own two pipes, or in a session one client after the other.
namespace berth::keeper::link {

/// From now on through a socket at `path`. 0 or a negative errno.
long open_session(const char* path);
[[nodiscard]] bool is_session();
/// What to poll: of nobody -1.
[[nodiscard]] int listener();
[[nodiscard]] int hears();

/// Whoever waits becomes the one who is talked to; whoever was is hung up on. False: nobody came.
bool accept_client();
void drop_client();

bool get(void* bytes, std::size_t size);
/// False: nobody will hear it. In a session, output is kept until it is acknowledged.
bool tell(RelayKind kind, u64 offset, const void* bytes = nullptr, std::uint32_t size = 0);
/// What was spent up to here is in a log.
void acknowledge(u64 spent);
/// Tells a new client what the one before may not have heard.
void tell_again();

} // namespace berth::keeper::link

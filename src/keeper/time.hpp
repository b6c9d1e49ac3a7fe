#pragma once

#include "keeper/clients.hpp"

/// Commands that may run only so long. Whoever asks for one says so before; from then on nobody else is
/// needed to end it.
namespace berth::keeper {

/// TIME: kept for the exec that the client asks for next, and gone with the client.
void expect_time(Message& m);
void forget_time(int client);
/// Of an exec that was just claimed: its time begins, where its client has named one.
void begin_time(Exec& x);

/// Of an exec that has ended: what it started ends with it where its time was over, and only there.
void end_time(Exec& x);

/// Ends those whose time is over; `wake` becomes the earliest time another one is to be looked at.
void hold_times(u64& wake);

} // namespace berth::keeper

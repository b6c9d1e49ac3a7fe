#pragma once

#include "keeper/exec.hpp"

/// From pipe to file. Bytes first, then the record, then the followers are woken.
namespace berth::keeper {

/// Writes the head of the index, and has room kept for what is told last. 0 or a negative errno.
long begin_log(Exec& x);

/// Takes one buffer full from a stream. False when nothing more is there now (or ever).
bool drain(Exec& x, int stream);

/// Everything that stood in the streams when the command ended, and no more than that: a
/// grandchild that goes on writing cannot delay the exit record.
void drain_at_exit(Exec& x);

/// Writes the records that are due and not yet written: start, open gaps, exit, closed. When the
/// disk refuses one, `retry_at` tells when to call again.
void settle(Exec& x);

extern u64 retry_at; ///< steady time, or 0: nothing to be repeated

} // namespace berth::keeper

#pragma once

#include "keeper/clients.hpp"

namespace berth::keeper {

/// Opens what launches will need while everything inside is still as the launcher made it.
void prepare_launches();

/// Where the next message is to be read to. A launch that is not over keeps the words it came with,
/// so this changes between two buffers.
char* request_room();

void start_exec(Message& m);
void adopt_exec(Message& m);

/// True while a launch has not reached its execve (its group is frozen, say). New ones are refused
/// with EAGAIN meanwhile: there is one child stack.
bool launch_pending();

/// Looks at a pending launch again, and completes it when it is over.
void check_launch();

} // namespace berth::keeper

#pragma once

#include "keeper/clients.hpp"

namespace berth::keeper {

/// Opens what requests will need while everything inside is still as the launcher made it.
void prepare_requests();

/// Reads and obeys one message of a client.
void serve(int client);

/// Kills everything inside; the keeper goes when the exits stand in the logs.
void begin_stop();

extern bool stopping; ///< STOP was heard: ends as soon as every exec has its records
extern u64 stop_by;   ///< steady time: or then at the latest

} // namespace berth::keeper

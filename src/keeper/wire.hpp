#pragma once

// The one header of the keeper that others include.
#include "keeper/wire_check.hpp"    // IWYU pragma: export
#include "keeper/wire_log.hpp"      // IWYU pragma: export
#include "keeper/wire_messages.hpp" // IWYU pragma: export
#include "keeper/wire_relay.hpp"    // IWYU pragma: export

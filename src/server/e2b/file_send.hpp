#pragma once

#include <string>

#include "base/blocking_pool.hpp"
#include "base/clock.hpp"
#include "base/unique_fd.hpp"
#include "server/http/exchange.hpp"

namespace berth::e2b {

/// Answers with a regular file, or the part of it that was asked for. `path` names it to the client.
Task<void> send_file(http::Exchange& exchange, BlockingPool& pool, UniqueFd file, std::string path,
                     WallTime modified);

} // namespace berth::e2b

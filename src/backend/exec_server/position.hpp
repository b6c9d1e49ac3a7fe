#pragma once

#include <cstdint>
#include <string>

#include "base/result.hpp"

namespace berth::exec_server {

/// How far an exec was heard, in a file beside its log: whoever takes it up begins there. Written after the
/// log; what was logged meanwhile is known by its offset and not logged again.
struct Position {
    std::uint64_t seq = 0;   ///< of the last event
    std::uint64_t spent = 0; ///< of the relay's credit
    std::uint64_t sent = 0;  ///< of the input
    std::uint64_t taken = 0; ///< of that, by the command
    std::string partial;     ///< of a frame whose rest has not come
};

[[nodiscard]] Status write_position(int exec_directory, const Position& position);
/// Nothing was heard: NotFound.
[[nodiscard]] Result<Position> read_position(int exec_directory);

/// The session that has the exec, for whoever takes it up.
[[nodiscard]] Status write_session(int exec_directory, const std::string& session);
[[nodiscard]] Result<std::string> read_session(int exec_directory);

} // namespace berth::exec_server

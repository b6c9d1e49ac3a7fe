#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "base/exit_status.hpp"

namespace berth {

/// One entry of an exec's log. `Exit` is what waitid said; `Closed` means every stream is at its
/// end. Output may come between them: a grandchild can hold the pipe.
struct ExecEvent {
    enum class Kind { Start, Stdout, Stderr, Pty, Exit, Closed, Gap };

    std::uint64_t sequence = 0;
    Kind kind = Kind::Start;
    WallTime time{};
    std::string bytes;           ///< of the three streams
    std::uint64_t gap_bytes = 0; ///< how much is missing, of Gap; 0: nobody knows
    ExitStatus status;           ///< of Exit
};

[[nodiscard]] std::string_view to_string(ExecEvent::Kind kind) noexcept;

} // namespace berth

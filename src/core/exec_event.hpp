#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.hpp"

namespace berth {

/// How a command ended, as the kernel said it. There is no other way to make one that is known.
class ExitStatus {
public:
    /// From the raw status of wait(2).
    [[nodiscard]] static ExitStatus from_wait(int raw) noexcept;
    /// The process was lost: nobody saw it end.
    [[nodiscard]] static ExitStatus unknown() noexcept { return {}; }

    [[nodiscard]] bool known() const noexcept { return known_; }
    [[nodiscard]] std::optional<int> code() const noexcept;
    [[nodiscard]] std::optional<int> signal() const noexcept;
    /// As a shell shows it: the code, or 128 + the signal; 125 when it is unknown.
    [[nodiscard]] int shell_code() const noexcept;
    bool operator==(const ExitStatus&) const = default;

private:
    bool known_ = false;
    int raw_ = 0;
};

/// "exit code 7", "killed by signal 9 (KILL)", "unknown".
[[nodiscard]] std::string to_string(const ExitStatus& status);

/// One entry of an exec's log. `Exit` is what waitid said; `Closed` means every stream is at its
/// end. Output may come between them: a grandchild can hold the pipe.
struct ExecEvent {
    enum class Kind { Start, Stdout, Stderr, Pty, Exit, Closed, Gap };

    std::uint64_t sequence = 0;
    Kind kind = Kind::Start;
    WallTime time{};
    std::string bytes;           ///< of the three streams
    std::uint64_t gap_bytes = 0; ///< how much is missing, of Gap
    ExitStatus status;           ///< of Exit
};

[[nodiscard]] std::string_view to_string(ExecEvent::Kind kind) noexcept;

} // namespace berth

#pragma once

#include <termios.h>

#include <cstdint>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace berth::sys {

struct WindowSize {
    std::uint16_t rows = 24;
    std::uint16_t columns = 80;
    bool operator==(const WindowSize&) const = default;
};

[[nodiscard]] Result<WindowSize> window_size(int terminal);
/// The foreground process group of the terminal gets SIGWINCH when the size changed.
[[nodiscard]] Status set_window_size(int terminal, WindowSize size);

/// A terminal on the host's devpts. A sandbox opens its own inside, in a devpts of its own.
struct Pty {
    UniqueFd master;
    UniqueFd slave;
};
[[nodiscard]] Result<Pty> open_pty(WindowSize size = {});

/// Our own terminal in raw mode, every key handed on as it is, until this is destroyed.
///
/// A person must get a usable terminal back however we end, so the old mode is also restored when
/// a fatal signal strikes whose disposition was the default; a handler somebody else installed is
/// left alone. Nothing helps against SIGKILL. At most one exists in a process.
class RawTerminal {
public:
    [[nodiscard]] static Result<RawTerminal> enter(int terminal);
    RawTerminal(RawTerminal&& other) noexcept;
    RawTerminal& operator=(RawTerminal&&) = delete;
    RawTerminal(const RawTerminal&) = delete;
    RawTerminal& operator=(const RawTerminal&) = delete;
    ~RawTerminal();

private:
    RawTerminal() noexcept = default;
    bool active_ = true;
};

} // namespace berth::sys

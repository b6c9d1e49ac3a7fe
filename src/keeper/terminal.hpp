#pragma once

#include <cstdint>

namespace berth::keeper {

/// Holds /dev/pts before anything else runs, so that nobody inside can put another directory there.
void remember_terminals();

/// A new pty of the sandbox's own devpts with this window: master (non-blocking) and slave, owned
/// by `uid` so that the command may open it again by name. 0 or a negative errno.
long open_terminal(std::uint16_t rows, std::uint16_t columns, std::uint32_t uid, int& master, int& slave);

long resize_terminal(int master, std::uint16_t rows, std::uint16_t columns);

/// The character that means end of file on this terminal, usually ^D.
char end_of_file_character(int master);

} // namespace berth::keeper

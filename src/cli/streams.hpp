#pragma once

/// Our own three streams, of which somebody may have closed some (>&-).
namespace berth::cli {

/// What is closed stays closed, and its number taken: else the next file that is opened, the store perhaps,
/// would have it, and be taken for a stream. To be called first.
void hold_closed_streams();

[[nodiscard]] bool has_stdin();

} // namespace berth::cli

#pragma once

namespace berth::bench {

/// What the relay measurement runs inside and outside of sandboxes (`berth bench generate ...`):
///   bytes SIZE TOTAL     writes TOTAL bytes to stdout, SIZE at a time
///   stamps COUNT MICROS  writes COUNT times the monotonic clock (8 bytes), one each MICROS
/// Answers the exit code.
[[nodiscard]] int generate(int argc, char** argv);

} // namespace berth::bench

#pragma once

#include <cstdint>

/// What the relay and whoever started it say to one another through the relay's own standard input and
/// output: frames of a head and `length` bytes, host byte order. It is for places where a command can be
/// started and fed, but its true end, the end of its input, signals and a terminal's size have no words.
namespace berth::keeper {

enum class RelayKind : std::uint16_t {
    Begin = 1,    ///< RelayBegin and the body: cwd, argv, env as NUL-ended strings. First, and once
    Input,        ///< `offset`: where in the whole input the bytes belong; what was taken before is skipped
    End,          ///< of the input
    Signal,       ///< `offset`: the number; to the command's group
    Resize,       ///< `offset`: rows << 16 | columns
    Credit,       ///< `offset`: how much the relay may have told in all, as relay_cost() counts it
    Kill,         ///< SIGKILL to everything that descends from the relay
    Done,         ///< of a session: its end was heard, and the relay may go
    Started = 32, ///< `offset`: pid inside
    Failed,       ///< `offset`: Step << 32 | errno; nothing follows
    Out,          ///< `offset`: where in its stream the bytes belong
    Err,
    Pty,
    Exit,  ///< `offset`: the raw wait status
    Taken, ///< `offset`: up to where the command's pipe has taken the input
    Deaf,  ///< nobody reads the input any more
    Again, ///< of a session, first to whoever comes later: `offset` is the credit that was spent for good
    Heard, ///< the same, last: up to where the input has come
    Over,  ///< of a session: it has ended and its streams are closed
};

struct RelayHead {
    std::uint32_t length;
    RelayKind kind;
    std::uint16_t reserved;
    std::uint64_t offset;
};

struct RelayBegin {
    std::uint32_t argc, envc;
    std::uint32_t flags; ///< ExecFlags: kStdin, kTerminal
    std::uint16_t rows, columns;
};

inline constexpr std::uint32_t kRelayPiece = 16u << 10;        ///< of output, most bytes of a frame
inline constexpr std::uint32_t kRelayInput = 64u << 10;        ///< the same of input
inline constexpr std::uint32_t kRelayWindow = 256u << 10;      ///< input that may wait for the command
inline constexpr std::uint64_t kRelayFirstCredit = 512u << 10; ///< granted without a word

/// What a frame of output takes of the credit: its head, and that a place may count pieces too.
constexpr std::uint64_t relay_cost(std::uint64_t bytes) { return bytes + 64; }

// A session ("xs") outlives whoever listens to it: it has a socket instead of two pipes, takes the next one
// who connects and tells again what was not acknowledged. A grant of credit acknowledges: what was spent
// before `offset` - kRelayFirstCredit is in a log. Without a listener the command goes on until the credit is
// spent.

static_assert(sizeof(RelayHead) == 16 && sizeof(RelayBegin) == 16);

} // namespace berth::keeper

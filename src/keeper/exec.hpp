#pragma once

#include "keeper/sys.hpp"
#include "keeper/wire.hpp"

namespace berth::keeper {

/// How long a command may run, and what that is held by. Descriptors are -1 where there is none.
struct Time {
    u64 limit;         ///< ns; 0: for ever
    u64 paused_before; ///< ms, of the sandbox until it began
    int pauses, frozen;
    int kill; ///< ends its group
};

/// One command and its log. A slot with state Unknown is free.
struct Exec {
    u64 id;
    State state;
    std::uint32_t flags;
    int pid;
    int status;      ///< raw wait status once Exited
    bool start_told; ///< the record stands in the index
    bool exit_told;
    bool drop_tail; ///< no holes here: what comes after the limit is not stored
    bool wide[2];   ///< the pipe was enlarged

    int input;     ///< write end, or the master of a pty, or -1
    int source[2]; ///< read ends; -1 at end of file
    int log[2];
    int index;
    std::uint32_t held_count;
    int held[kMaxHeld]; ///< only kept open

    u64 limit;
    u64 records;
    u64 reserved;     ///< bytes of the index that the disk has promised
    u64 bytes[2];     ///< logical size
    u64 gap_from[2];  ///< bytes from here to `bytes` were lost and have no record yet...
    bool gap_open[2]; ///< ...when this is set
    u64 punched[2];
    u64 lost;
    u64 rest_until[2]; ///< pace: the source is left alone until then

    u64 write; ///< last write id, and what it was answered
    std::int64_t write_answer;

    u64 taken; ///< by a reader who attends it, when it was looked at last

    Time time;
    u64 begun;   ///< steady time
    u64 look_at; ///< steady time of the next look at its time; 0: never
    int unclear; ///< looks that did not tell whether it is paused
    bool overdue;

    int owner; ///< client to notify, or -1
    u64 request;
};

inline constexpr int kMaxLive = 256;
inline constexpr int kMaxClosed = 32; ///< remembered for LIST; the oldest is forgotten first

extern Exec execs[kMaxLive + kMaxClosed];
extern int exec_high; ///< slots above were never used: neither scanned nor resident

Exec* find_exec(u64 id);

/// A cleared slot, or null when as many execs live as there may.
Exec* claim_slot();

/// Closes whatever it still holds and frees the slot.
void release(Exec& x);
/// Closes what comes with a time; there is none then.
void drop(Time& time);
/// What it holds for others: once nobody can write for it any more.
void drop_held(Exec& x);

constexpr Kind kind_of(const Exec& x, int stream)
{
    if (x.flags & kTerminal) return Kind::Pty;
    return stream == 0 ? Kind::Out : Kind::Err;
}

} // namespace berth::keeper

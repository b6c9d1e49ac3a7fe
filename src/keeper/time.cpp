// The time of commands. A sandbox that is paused stands still, and its time with it: how long it has been
// paused is in a file outside that comes as a descriptor, like the one that ends the command's whole group.
// What is marked in the log before the kill is why it ended: the status alone tells nobody.

#include "keeper/time.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

namespace berth::keeper {
namespace {

constexpr u64 kPausedLook = 100'000'000; // ns between looks at what is paused
constexpr u64 kAgain = 100'000'000;      // ns until what did not end is killed again
constexpr int kPatience = 20;            // looks at a record that is about to change
constexpr u64 kMillisecond = 1'000'000;

/// What each client has said about the exec it asks for next.
struct {
    u64 exec; ///< 0: nothing
    Time time;
} expected[kMaxClients];

bool readable(int fd)
{
    // A fifo or a socket here would let a client stop the keeper.
    struct stat st{};
    return call(SYS_fstat, fd, &st) == 0 && S_ISREG(st.st_mode);
}

/// "<milliseconds paused before> <begin of the present pause, or 0>"; an empty one: never paused.
bool read_pauses(int fd, u64& before, u64& since)
{
    char text[64];
    const long n = call(SYS_pread64, fd, text, sizeof text - 1, 0);
    before = since = 0;
    if (n <= 0) return n == 0;
    text[n] = '\0';
    long second = 0;
    while (second < n && text[second] != ' ') ++second;
    if (second == n) return false;
    text[second++] = '\0';
    return parse_number(text, before) && parse_number(text + second, since);
}

bool is_frozen(int fd)
{
    char asked = '0';
    return call(SYS_pread64, fd, &asked, 1, 0) == 1 && asked == '1';
}

/// True when its time is over; else `look_at` is when to look again.
bool is_over(Exec& x, u64 now)
{
    const Time& t = x.time;
    u64 end = x.begun + t.limit;
    if (t.pauses >= 0) {
        // In this order: whoever resumes thaws first and writes then, so one of the two tells of a pause.
        const bool frozen = is_frozen(t.frozen);
        u64 before = 0, since = 0;
        const bool clear = read_pauses(t.pauses, before, since) && since == 0 && before >= t.paused_before;
        // A record of a pause without one is about to change, unless its writer was killed.
        if (frozen || (!clear && ++x.unclear < kPatience)) {
            x.look_at = now + kPausedLook;
            return false;
        }
        x.unclear = 0;
        if (before > t.paused_before) end += (before - t.paused_before) * kMillisecond;
    }
    x.look_at = end;
    return now >= end;
}

void end_group(const Exec& x)
{
    if (x.time.kill >= 0) call(SYS_write, x.time.kill, "1", 1);
}

void end(const Exec& x)
{
    end_group(x);
    // The number is the command's until we reap it.
    if (call(SYS_getpgid, x.pid) == x.pid) call(SYS_kill, -x.pid, SIGKILL);
    call(SYS_kill, x.pid, SIGKILL);
}

} // namespace

void end_time(Exec& x)
{
    // Whoever it let in while it died.
    if (x.overdue) end_group(x);
    drop(x.time);
}

void expect_time(Message& m)
{
    const auto r = load<TimeRequest>(m.bytes);
    for (std::uint32_t i = 0; i < m.fd_count; ++i)
        if (!readable(m.fd[i])) return reply_err(m, r.exec, Step::Request, EINVAL);
    forget_time(m.client);
    auto& mine = expected[m.client];
    mine.exec = r.exec;
    mine.time = {r.time, 0, -1, -1, -1};
    std::uint32_t next = 0;
    if (r.flags & kPauses) {
        mine.time.pauses = m.take(next++);
        mine.time.frozen = m.take(next++);
    }
    if (r.flags & kKillFile) mine.time.kill = m.take(next);
    reply_ok(m, r.exec, 0);
}

void forget_time(int client)
{
    if (expected[client].exec != 0) drop(expected[client].time);
    expected[client].exec = 0;
}

void begin_time(Exec& x)
{
    auto& mine = expected[x.owner];
    if (mine.exec == 0) return;
    if (mine.exec != x.id) return forget_time(x.owner);
    x.time = mine.time;
    mine.exec = 0;
    u64 since = 0;
    if (x.time.pauses >= 0) read_pauses(x.time.pauses, x.time.paused_before, since);
    x.begun = steady_ns();
    x.look_at = x.begun + x.time.limit;
}

void hold_times(u64& wake)
{
    u64 now = 0;
    for (int i = 0; i < exec_high; ++i) {
        Exec& x = execs[i];
        if (x.look_at == 0 || (x.state != State::Running && x.state != State::Starting)) continue;
        if (now == 0) now = steady_ns();
        if (now >= x.look_at && (x.overdue || is_over(x, now))) {
            if (!x.overdue) {
                x.overdue = true;
                const u64 when = wall_ns();
                call(SYS_pwrite64, x.index, &when, sizeof when, offsetof(IndexHead, overdue));
            }
            end(x);
            x.look_at = now + kAgain;
        }
        if (x.look_at < wake) wake = x.look_at;
    }
}

} // namespace berth::keeper

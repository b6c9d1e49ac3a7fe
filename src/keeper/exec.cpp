#include "keeper/exec.hpp"

namespace berth::keeper {

Exec execs[kMaxLive + kMaxClosed];
int exec_high = 0;

Exec* find_exec(u64 id)
{
    for (int i = 0; i < exec_high; ++i)
        if (execs[i].state != State::Unknown && execs[i].id == id) return &execs[i];
    return nullptr;
}

Exec* claim_slot()
{
    int live = 0, closed = 0;
    Exec* free = nullptr;
    Exec* oldest = nullptr;
    for (int i = 0; i < exec_high; ++i) {
        Exec& x = execs[i];
        if (x.state == State::Unknown) {
            if (free == nullptr) free = &x;
        } else if (x.state == State::Closed) {
            ++closed;
            if (oldest == nullptr || x.id < oldest->id) oldest = &x;
        } else {
            ++live;
        }
    }
    if (live >= kMaxLive) return nullptr;
    if (closed >= kMaxClosed) free = oldest;
    if (free == nullptr) free = &execs[exec_high++];
    *free = Exec{};
    free->input = free->source[0] = free->source[1] = free->log[0] = free->log[1] = free->index = -1;
    free->owner = -1;
    free->time.pauses = free->time.frozen = free->time.kill = -1;
    return free;
}

void release(Exec& x)
{
    if (x.input == x.source[0]) x.input = -1; // a pty has one descriptor for both ways
    close_fd(x.input);
    for (int s = 0; s < 2; ++s) {
        close_fd(x.source[s]);
        close_fd(x.log[s]);
    }
    close_fd(x.index);
    drop_held(x);
    drop(x.time);
    x.state = State::Unknown;
}

void drop(Time& time)
{
    close_fd(time.pauses);
    close_fd(time.frozen);
    close_fd(time.kill);
    time.limit = 0;
}

void drop_held(Exec& x)
{
    for (; x.held_count > 0; --x.held_count) close_fd(x.held[x.held_count - 1]);
}

} // namespace berth::keeper

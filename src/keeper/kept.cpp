// The loop of a kept sandbox's pid 1: sockets, streams, deaths. It blocks nowhere but in ppoll.

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "keeper/launch.hpp"
#include "keeper/modes.hpp"
#include "keeper/output.hpp"
#include "keeper/requests.hpp"
#include "keeper/time.hpp"

namespace berth::keeper {
namespace {

constexpr int kListener = 3;
constexpr int kMaker = 4; ///< of a parked one: a pipe from its maker, and what is gone when it is claimed
constexpr int kUnclaimed = 5;
constexpr u64 kNever = ~u64{0};
constexpr u64 kLaunchLook = 5'000'000;   // ns between looks at a launch that is late
constexpr u64 kAcceptRest = 100'000'000; // ns
constexpr int kMaxPolls = 3 + kMaxClients + 2 * (kMaxLive + kMaxClosed);

pollfd polls[kMaxPolls];
std::uint16_t poll_of[kMaxPolls]; ///< client number, or exec number * 2 + stream
int deaths = -1;                  ///< signalfd of SIGCHLD
int maker = -1;                   ///< until nobody can undo the claim any more
int unclaimed = -1;
bool claiming = false;
u64 accept_after = 0; ///< out of descriptors: the listener is left alone until then

int add_poll(int count, int fd, int who)
{
    polls[count] = {fd, POLLIN, 0};
    poll_of[count] = static_cast<std::uint16_t>(who);
    return count + 1;
}

/// Listener and clients, from polls[from] on.
int poll_sockets(int from)
{
    int n = add_poll(from, accept_after == 0 ? kListener : -1, 0);
    for (int i = 0; i < client_high; ++i)
        if (clients[i] != 0) n = add_poll(n, clients[i] - 1, i);
    return n;
}

bool serve_sockets(int from, int to)
{
    bool any = false;
    for (int i = from + 1; i < to; ++i)
        if (polls[i].revents != 0 && clients[poll_of[i]] == polls[i].fd + 1) {
            serve(poll_of[i]);
            any = true;
        }
    if (polls[from].revents != 0) {
        if (!accept_clients(kListener)) accept_after = steady_ns() + kAcceptRest;
        any = true;
    }
    return any;
}

/// Hears everything that was said up to now.
void hear_all()
{
    const timespec now{};
    for (int round = 0; round < 64; ++round) {
        const int n = poll_sockets(0);
        if (call(SYS_ppoll, polls, n, &now, nullptr, 8) <= 0 || !serve_sockets(0, n)) return;
    }
}

Exec* running(int pid)
{
    for (int i = 0; i < exec_high; ++i)
        if (execs[i].pid == pid && execs[i].state == State::Running) return &execs[i];
    return nullptr;
}

/// Reaps everybody. A command that sends ADOPT and ends at once may be dead before its message is
/// read: a stranger is looked at (WNOWAIT), then everything said is heard, then it is reaped.
void reap()
{
    for (;;) {
        siginfo_t info{};
        if (call(SYS_waitid, P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT, nullptr) < 0) return;
        const int pid = info.si_pid;
        if (pid == 0) return;
        check_launch(); // one that died on its way to the execve must be known as an exec by now
        Exec* x = running(pid);
        if (x == nullptr) {
            hear_all();
            x = running(pid);
        }
        int status = 0;
        if (call(SYS_wait4, pid, &status, WNOHANG, nullptr) != pid) return;
        if (x == nullptr) continue;
        drain_at_exit(*x);
        if (!(x->flags & kTerminal)) close_fd(x->input);
        x->status = status;
        x->state = State::Exited;
        end_time(*x);
        settle(*x);
        tell_exit(*x);
    }
}

void look_for_deaths()
{
    signalfd_siginfo told[8];
    for (long n; (n = call(SYS_read, deaths, told, sizeof told)) > 0;)
        for (long i = 0; i < n / static_cast<long>(sizeof told[0]); ++i)
            if (told[i].ssi_signo == SIGTERM) begin_stop();
    reap();
}

void drain_streams(int from, int to)
{
    for (int i = from; i < to; ++i) {
        if (polls[i].revents == 0) continue;
        Exec& x = execs[poll_of[i] / 2];
        const int stream = poll_of[i] & 1;
        if (x.source[stream] != polls[i].fd) continue;
        drain(x, stream);
        if (x.source[stream] < 0) settle(x);
    }
}

/// Streams that are not resting; `wake` becomes the earliest time something else is due.
int poll_streams(int n, u64& wake)
{
    u64 now = 0;
    const auto due = [&](u64 at) {
        if (now == 0) now = steady_ns();
        if (at <= now) return true;
        if (at < wake) wake = at;
        return false;
    };
    for (int i = 0; i < exec_high; ++i) {
        Exec& x = execs[i];
        if (x.state == State::Unknown || x.state == State::Closed) continue;
        for (int s = 0; s < 2; ++s) {
            if (x.source[s] < 0) continue;
            if (x.rest_until[s] != 0 && !due(x.rest_until[s])) continue;
            x.rest_until[s] = 0;
            n = add_poll(n, x.source[s], i * 2 + s);
        }
    }
    return n;
}

void repeat_records(u64& wake)
{
    if (retry_at == 0) return;
    if (steady_ns() >= retry_at) {
        retry_at = 0;
        for (int i = 0; i < exec_high; ++i)
            if (execs[i].state != State::Unknown && execs[i].state != State::Closed) settle(execs[i]);
    }
    if (retry_at != 0 && retry_at < wake) wake = retry_at;
}

bool may_stop(u64& wake)
{
    if (!stopping) return false;
    bool all = true;
    for (int i = 0; i < exec_high; ++i)
        all = all && (execs[i].state == State::Unknown || execs[i].state == State::Closed);
    if (stop_by < wake) wake = stop_by;
    return all || steady_ns() >= stop_by;
}

/// Who made us ahead writes a word when a claim begins, and hangs up when it is done, or when it is killed.
/// Then the file that the record of a claimed one replaces tells which; without a word it is never asked,
/// since whoever removes a state directory removes that file, too. False: we are nobody's, and nobody is
/// left.
bool hear_maker()
{
    char words[8];
    const long n = call(SYS_read, maker, words, sizeof words);
    if (n > 0) claiming = true;
    if (n > 0 || n == -EAGAIN || n == -EINTR) return true;
    struct stat st{};
    if (!claiming || call(SYS_fstat, unclaimed, &st) < 0 || st.st_nlink != 0) return false;
    close_fd(maker);
    close_fd(unclaimed);
    return true;
}

/// The loop of both kinds: the words from `first` on are uids, `more` are signals beside SIGCHLD.
int keep_until_stopped(int argc, char** argv, int first, u64 more)
{
    for (int i = first; i < argc; ++i) {
        u64 uid = 0;
        if (!parse_number(argv[i], uid) || uid >= ~std::uint32_t{0}) return 125;
        allow_peer(static_cast<std::uint32_t>(uid));
    }
    prepare_requests();
    call(SYS_fcntl, kListener, F_SETFL, O_NONBLOCK);
    const u64 child = u64{1} << (SIGCHLD - 1) | more;
    deaths = static_cast<int>(call(SYS_signalfd4, -1, &child, 8, SFD_CLOEXEC | SFD_NONBLOCK));
    if (deaths < 0) return 125;
    for (;;) {
        u64 wake = kNever;
        repeat_records(wake);
        hold_times(wake);
        if (may_stop(wake)) return 0;
        if (launch_pending()) {
            check_launch();
            if (launch_pending()) wake = steady_ns() + kLaunchLook < wake ? steady_ns() + kLaunchLook : wake;
        }
        if (accept_after != 0 && steady_ns() >= accept_after) accept_after = 0;
        if (accept_after != 0 && accept_after < wake) wake = accept_after;
        add_poll(0, deaths, 0);
        add_poll(1, maker, 0);
        const int streams = poll_sockets(2);
        const int count = poll_streams(streams, wake);
        timespec left{};
        if (wake != kNever) {
            const u64 now = steady_ns();
            left = to_timespec(wake > now ? wake - now : 0);
        }
        if (call(SYS_ppoll, polls, count, wake == kNever ? nullptr : &left, nullptr, 8) <= 0) continue;
        const bool died = polls[0].revents != 0; // serving reuses the array
        if (polls[1].revents != 0 && !hear_maker()) return 0;
        drain_streams(streams, count);
        serve_sockets(2, streams);
        if (died) look_for_deaths();
    }
}

/// A socket at `path` as the descriptor that the loop listens on.
bool listen_at(const char* path)
{
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    std::size_t length = 0;
    for (; path[length] != '\0'; ++length) {
        if (length + 1 >= sizeof name.sun_path) return false;
        name.sun_path[length] = path[length];
    }
    call(SYS_unlink, path); // of the life before
    int socket = static_cast<int>(call(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (socket < 0) return false;
    if (call(SYS_bind, socket, &name, sizeof name) < 0) return false;
    // Who may enter the directory outside may connect; the peer is looked at all the same.
    call(SYS_chmod, path, 0666);
    if (call(SYS_listen, socket, 64) < 0) return false;
    if (socket != kListener && call(SYS_dup3, socket, kListener, O_CLOEXEC) < 0) return false;
    return true;
}

} // namespace

int keep(int argc, char** argv)
{
    harden();
    int first = 2; // the word before tells others whose we are
    if (argc > first && argv[first][0] == 'p' && argv[first][1] == '\0') {
        maker = kMaker;
        unclaimed = kUnclaimed;
        ++first;
    }
    return keep_until_stopped(argc, argv, first, 0);
}

int keep_container(int argc, char** argv)
{
    harden();
    if (!listen_at(argv[2])) return 125;
    allow_only_outside();
    return keep_until_stopped(argc, argv, 3, u64{1} << (SIGTERM - 1));
}

} // namespace berth::keeper

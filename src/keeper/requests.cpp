// What each message does to a running exec. EXEC and ADOPT are in launch.cpp.

#include "keeper/requests.hpp"

#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>

#include "keeper/launch.hpp"
#include "keeper/output.hpp"
#include "keeper/terminal.hpp"
#include "keeper/time.hpp"

namespace berth::keeper {

bool stopping = false;
u64 stop_by = 0;

namespace {

constexpr u64 kStopGrace = 3'000'000'000; // ns: a process in an uninterruptible call may take a while

/// The number is the command's until we reap it, which only this process does; its group is asked
/// for only while the leader lives, so neither can be a stranger's.
void signal_exec(const Message& m)
{
    const auto r = load<SignalRequest>(m.bytes);
    const Exec* x = find_exec(r.exec);
    if (x == nullptr || x->state != State::Running) return reply_err(m, r.exec, Step::None, ESRCH);
    // An adopted command may not lead a group of its own: then its group is somebody else's.
    const bool group = r.scope == Scope::Group && call(SYS_getpgid, x->pid) == x->pid;
    const long sent = call(SYS_kill, group ? -x->pid : x->pid, r.signal);
    if (sent < 0) return reply_err(m, r.exec, Step::None, sent);
    reply_ok(m, r.exec, 0);
}

/// Does `write` once for a write id; the last id again is answered as before, a lower one refused.
template <class F> void with_input(const Message& m, F write)
{
    const auto r = load<InputRequest>(m.bytes);
    Exec* x = find_exec(r.exec);
    if (x == nullptr) return reply_err(m, r.exec, Step::None, ESRCH);
    if (r.write < x->write) return reply_err(m, r.exec, Step::None, ESTALE);
    if (r.write > x->write) {
        const long result = x->input < 0 ? -EPIPE : write(*x);
        x->write = r.write;
        x->write_answer = result == -EAGAIN ? 0 : result;
    }
    if (x->write_answer < 0) return reply_err(m, r.exec, Step::None, x->write_answer);
    reply_ok(m, r.exec, static_cast<u64>(x->write_answer));
}

void write_input(const Message& m)
{
    with_input(m, [&](Exec& x) -> long {
        const std::size_t n = m.length - sizeof(InputRequest);
        return n == 0 ? 0 : call(SYS_write, x.input, m.bytes + sizeof(InputRequest), n);
    });
}

/// A pipe is closed; on a terminal the character that means end of file is typed.
void end_input(const Message& m)
{
    with_input(m, [](Exec& x) -> long {
        if (x.flags & kTerminal) {
            const char character = end_of_file_character(x.input);
            return call(SYS_write, x.input, &character, 1);
        }
        close_fd(x.input);
        return 0;
    });
}

void resize(const Message& m)
{
    const auto r = load<ResizeRequest>(m.bytes);
    const Exec* x = find_exec(r.exec);
    if (x == nullptr || x->source[0] < 0) return reply_err(m, r.exec, Step::None, ESRCH);
    if (!(x->flags & kTerminal)) return reply_err(m, r.exec, Step::None, ENOTTY);
    const long done = resize_terminal(x->source[0], r.rows, r.columns);
    if (done < 0) return reply_err(m, r.exec, Step::None, done);
    reply_ok(m, r.exec, 0);
}

void dial(const Message& m)
{
    const auto r = load<DialRequest>(m.bytes);
    const int family = r.family == 4 ? AF_INET : AF_INET6;
    int socket = static_cast<int>(call(SYS_socket, family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (socket < 0) return reply_err(m, 0, Step::None, socket);
    long result;
    if (family == AF_INET) {
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_port = __builtin_bswap16(r.port);
        to.sin_addr.s_addr = __builtin_bswap32(INADDR_LOOPBACK);
        result = call(SYS_connect, socket, &to, sizeof to);
    } else {
        sockaddr_in6 to{};
        to.sin6_family = AF_INET6;
        to.sin6_port = __builtin_bswap16(r.port);
        to.sin6_addr.s6_addr[15] = 1;
        result = call(SYS_connect, socket, &to, sizeof to);
    }
    if (result < 0 && result != -EINPROGRESS)
        reply_err(m, 0, Step::None, result);
    else
        reply_descriptor(m, socket, static_cast<int>(-result));
    close_fd(socket);
}

void follow(Message& m)
{
    const auto r = load<FollowRequest>(m.bytes);
    if (r.exec == 0) return reply_err(m, r.exec, Step::Request, EINVAL);
    if (const long bad = add_follower(m.client, r.exec, m.fd[0]); bad < 0)
        return reply_err(m, r.exec, bad == -EAGAIN ? Step::Table : Step::Request, bad);
    m.take(0);
    const Exec* x = find_exec(r.exec);
    reply_ok(m, r.exec, static_cast<u64>(x == nullptr ? State::Unknown : x->state));
}

void stop(const Message& m)
{
    reply_ok(m, 0, 0);
    begin_stop();
}

} // namespace

void begin_stop()
{
    if (stopping) return;
    stopping = true;
    stop_by = steady_ns() + kStopGrace;
    for (int i = 0; i < exec_high; ++i)
        if (execs[i].state == State::Running) {
            if (call(SYS_getpgid, execs[i].pid) == execs[i].pid) call(SYS_kill, -execs[i].pid, SIGKILL);
            call(SYS_kill, execs[i].pid, SIGKILL);
        }
    // Only as pid 1 is "everybody" the sandbox.
    if (call(SYS_getpid) == 1) call(SYS_kill, -1, SIGKILL);
}

void prepare_requests()
{
    prepare_launches();
    remember_terminals();
}

void serve(int client)
{
    Message m;
    if (!receive(client, request_room(), m)) return;
    switch (static_cast<Type>(m.header.type)) {
    case Type::Exec: start_exec(m); break;
    case Type::Adopt: adopt_exec(m); break;
    case Type::List: reply_list(m); break;
    case Type::Follow: follow(m); break;
    case Type::Signal: signal_exec(m); break;
    case Type::Stdin: write_input(m); break;
    case Type::Eof: end_input(m); break;
    case Type::Resize: resize(m); break;
    case Type::Dial: dial(m); break;
    case Type::Ping: reply_ok(m, 0, static_cast<u64>(call(SYS_getpid))); break;
    case Type::Stop: stop(m); break;
    case Type::Time: expect_time(m); break;
    default: break; // check_request let no other through
    }
    close_descriptors(m);
}

} // namespace berth::keeper

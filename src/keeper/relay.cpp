// One command between two pipes. Whoever starts programs elsewhere through somebody's protocol gets what that
// protocol has; this stands between, in the same place as the command, and has the rest: the wait status, the
// end of the input, every signal, a terminal of any size. What it tells is bounded by credit, so that whoever
// keeps its output meanwhile never has to drop any.
//
// The command is hostile. It has the relay's uid, so the relay is not dumpable; it may close or flood its
// streams, leave processes behind or go into sessions of its own: they stay children of the relay.

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#include "keeper/modes.hpp"
#include "keeper/relay_link.hpp"
#include "keeper/spawn.hpp"
#include "keeper/terminal.hpp"
#include "keeper/wire.hpp"
#include "keeper/wire_program.hpp"

namespace berth::keeper {
namespace {

using link::get;
using link::tell;

constexpr u64 kFirstClient = 60'000'000'000u; // ns
constexpr int kMostKilled = 4096;

Launch launch;
int source[2] = {-1, -1}; ///< out and err, or the terminal alone
int input = -1;
bool terminal = false;
u64 told[2] = {}; ///< bytes of each stream
u64 credit = kRelayFirstCredit, spent = 0;
u64 received = 0; ///< of the input
bool end_asked = false;
bool deaf = false;
bool dismissed = false;
int pid_inside = 0;
int ended_with = -1; ///< the wait status, once it is known

char words[sizeof(RelayHead) + kRelayInput]; ///< a frame that is not all here yet
std::size_t have = 0;
char waiting[kRelayWindow]; ///< input the command has not taken
std::size_t waiting_size = 0;
char piece[kRelayPiece];

int failed(Step step, long error)
{
    tell(RelayKind::Failed, static_cast<u64>(step) << 32 | static_cast<u64>(error < 0 ? -error : error));
    return 125;
}

void* room_for(std::size_t size)
{
    const long at = call(SYS_mmap, nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at < 0 && at > -4096 ? nullptr : reinterpret_cast<void*>(at);
}

/// Reads the first frame and points the launch at its words.
long read_words(RelayBegin& begin)
{
    RelayHead head{};
    if (!get(&head, sizeof head)) return -EPIPE;
    if (head.kind != RelayKind::Begin || head.length < sizeof begin || head.length > kMaxBody)
        return -EBADMSG;
    if (!get(&begin, sizeof begin)) return -EPIPE;
    const std::size_t length = head.length - sizeof begin;
    launch.named = begin.flags & kNamed;
    if (begin.argc < (launch.named ? 2u : 1u) || begin.argc > kMaxWords || begin.envc > kMaxWords)
        return -EBADMSG;
    const std::size_t slots = std::size_t{begin.argc} + begin.envc + 3;
    char* const body = static_cast<char*>(room_for(length + 1));
    auto** const all = static_cast<const char**>(room_for(slots * sizeof(char*)));
    if (body == nullptr || all == nullptr) return -ENOMEM;
    if (!get(body, length)) return -EPIPE;
    if (!split_body(body, length, begin.argc, begin.envc, all)) return -EBADMSG;
    const char** const env = all + 1 + begin.argc;
    for (std::size_t i = begin.envc; i > 0; --i) env[i] = env[i - 1];
    env[0] = nullptr;
    env[begin.envc + 1] = nullptr;
    launch.cwd = all[0];
    launch.argv = all + 1;
    launch.envp = env + 1;
    return 0;
}

/// The command's ends become the launch's, ours are kept; what is to be closed after the start is in
/// `theirs`.
long connect_streams(const RelayBegin& begin, int (&theirs)[3], Step& step)
{
    if (terminal) {
        step = Step::Terminal;
        if (const long bad = open_terminal(begin.rows, begin.columns, launch.uid, source[0], theirs[0]);
            bad < 0)
            return bad;
        input = source[0];
        launch.input = launch.output = launch.error = theirs[0];
        launch.terminal = true;
        return 0;
    }
    step = Step::Pipe;
    for (int s = 0; s < 2; ++s) {
        int ends[2];
        if (const long bad = call(SYS_pipe2, ends, O_CLOEXEC); bad < 0) return bad;
        source[s] = ends[0];
        theirs[1 + s] = ends[1];
        call(SYS_fcntl, source[s], F_SETFL, O_NONBLOCK);
    }
    launch.output = theirs[1];
    launch.error = theirs[2];
    if (begin.flags & kStdin) {
        int ends[2];
        if (const long bad = call(SYS_pipe2, ends, O_CLOEXEC); bad < 0) return bad;
        theirs[0] = ends[0];
        input = ends[1];
        call(SYS_fcntl, input, F_SETFL, O_NONBLOCK);
    } else {
        theirs[0] = static_cast<int>(call(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY | O_CLOEXEC));
        if (theirs[0] < 0) return theirs[0];
    }
    launch.input = theirs[0];
    return 0;
}

void close_input()
{
    if (terminal)
        input = -1; // the same descriptor as the output's
    else
        close_fd(input);
    waiting_size = 0;
}

void give_input()
{
    while (input >= 0 && waiting_size > 0) {
        const long n = call(SYS_write, input, waiting, waiting_size);
        if (n == -EAGAIN || n == -EINTR) return;
        if (n <= 0) {
            close_input();
            deaf = true;
            tell(RelayKind::Deaf, 0);
            return;
        }
        waiting_size -= static_cast<std::size_t>(n);
        for (std::size_t i = 0; i < waiting_size; ++i) waiting[i] = waiting[i + static_cast<std::size_t>(n)];
        tell(RelayKind::Taken, received - waiting_size);
    }
    if (input < 0 || !end_asked || waiting_size > 0) return;
    if (terminal) {
        const char end = end_of_file_character(input);
        if (call(SYS_write, input, &end, 1) == -EAGAIN) return;
        end_asked = false;
        return;
    }
    close_input();
}

/// Everything that descends from us, some at a time: what dies leaves its children to us.
void kill_all(int command)
{
    call(SYS_kill, -command, SIGKILL);
    for (int rounds = 0, killed = 1; killed > 0 && rounds < 64; ++rounds) {
        killed = 0;
        const long fd = call(SYS_openat, AT_FDCWD, "/proc/thread-self/children", O_RDONLY | O_CLOEXEC);
        if (fd < 0) return;
        char list[8192];
        const long n = call(SYS_read, fd, list, sizeof list);
        call(SYS_close, fd);
        for (long i = 0, pid = 0; i < n && killed < kMostKilled; ++i) {
            if (list[i] >= '0' && list[i] <= '9') {
                pid = pid * 10 + (list[i] - '0');
                continue;
            }
            if (pid > 1 && call(SYS_kill, pid, SIGKILL) == 0) ++killed;
            pid = 0;
        }
        // The command's own end is told by whoever waits for it.
        for (;;) {
            siginfo_t info{};
            const long r = call(SYS_waitid, P_ALL, 0, &info, WEXITED | WNOWAIT | WNOHANG, nullptr);
            if (r < 0 || info.si_pid == 0 || info.si_pid == command) break;
            int status = 0;
            call(SYS_wait4, info.si_pid, &status, WNOHANG, nullptr);
        }
        const timespec moment{0, 2'000'000};
        call(SYS_nanosleep, &moment, nullptr);
    }
}

/// False: nobody is there any more, or speaks another language.
bool obey(const RelayHead& head, const char* bytes, int command)
{
    switch (head.kind) {
    case RelayKind::Input: {
        // What lies before was lost with whoever sent it, and was never said to have been taken.
        if (head.offset > received) received = head.offset;
        const u64 known = received - head.offset;
        if (known >= head.length) return true;
        const std::size_t fresh = head.length - static_cast<std::size_t>(known);
        received += fresh;
        if (input < 0) return true;
        if (fresh > kRelayWindow - waiting_size) return false;
        for (std::size_t i = 0; i < fresh; ++i) waiting[waiting_size + i] = bytes[known + i];
        waiting_size += fresh;
        return true;
    }
    case RelayKind::End: end_asked = true; return true;
    case RelayKind::Signal:
        if (head.offset > 64) return false;
        call(SYS_kill, -command, head.offset);
        return true;
    case RelayKind::Resize:
        if (terminal && source[0] >= 0)
            resize_terminal(source[0], static_cast<std::uint16_t>(head.offset >> 16),
                            static_cast<std::uint16_t>(head.offset));
        return true;
    case RelayKind::Credit:
        if (head.offset > credit) credit = head.offset;
        if (link::is_session()) link::acknowledge(credit - kRelayFirstCredit);
        return true;
    case RelayKind::Kill: kill_all(command); return true;
    case RelayKind::Done: dismissed = true; return true;
    default: return false;
    }
}

/// Takes what has come; false as obey().
bool listen(int command)
{
    const long n = call(SYS_read, link::hears(), words + have, sizeof words - have);
    if (n == -EINTR || n == -EAGAIN) return true;
    if (n <= 0) return false;
    have += static_cast<std::size_t>(n);
    std::size_t at = 0;
    while (have - at >= sizeof(RelayHead)) {
        const auto head = load<RelayHead>(words + at);
        if (head.length > kRelayInput) return false;
        if (have - at < sizeof head + head.length) break;
        if (!obey(head, words + at + sizeof head, command)) return false;
        at += sizeof head + head.length;
    }
    for (std::size_t i = at; i < have; ++i) words[i - at] = words[i];
    have -= at;
    return true;
}

void pass_on(int stream)
{
    const long n = call(SYS_read, source[stream], piece, sizeof piece);
    if (n == -EAGAIN || n == -EINTR) return;
    if (n <= 0) {
        if (terminal) input = -1;
        close_fd(source[stream]);
        return;
    }
    const RelayKind kind = terminal ? RelayKind::Pty : stream == 0 ? RelayKind::Out : RelayKind::Err;
    tell(kind, told[stream], piece, static_cast<std::uint32_t>(n));
    told[stream] += static_cast<u64>(n);
    spent += relay_cost(static_cast<u64>(n));
}

/// True when the command was among those that died.
bool reap(int command, int& status)
{
    bool ended = false;
    for (;;) {
        int how = 0;
        const long pid = call(SYS_wait4, -1, &how, WNOHANG, nullptr);
        if (pid <= 0) return ended;
        if (pid == command) {
            status = how;
            ended = true;
        }
    }
}

/// Another client of a session is told everything that it cannot know.
void greet()
{
    if (!link::accept_client()) return;
    have = 0;
    link::tell_again();
    tell(RelayKind::Started, static_cast<u64>(pid_inside));
    tell(RelayKind::Taken, received - waiting_size);
    if (deaf) tell(RelayKind::Deaf, 0);
    if (ended_with >= 0) tell(RelayKind::Exit, static_cast<u64>(ended_with));
    if (ended_with >= 0 && source[0] < 0 && source[1] < 0) tell(RelayKind::Over, 0);
    tell(RelayKind::Heard, received);
}

int attend(int command, int children)
{
    bool ended = false, over = false;
    while (!ended || source[0] >= 0 || source[1] >= 0 || (link::is_session() && !dismissed)) {
        const bool may_tell = spent < credit;
        pollfd all[6] = {{link::hears(), POLLIN, 0},
                         {children, POLLIN, 0},
                         {may_tell ? source[0] : -1, POLLIN, 0},
                         {may_tell ? source[1] : -1, POLLIN, 0},
                         {waiting_size > 0 || end_asked ? input : -1, POLLOUT, 0},
                         {link::listener(), POLLIN, 0}};
        const long r = call(SYS_poll, all, 6, -1);
        if (r == -EINTR) continue;
        if (r < 0) return 125;
        if (all[0].revents != 0 && !listen(command)) {
            if (!link::is_session()) {
                kill_all(command);
                return 125;
            }
            link::drop_client();
        }
        if (all[5].revents != 0) greet();
        if (all[4].revents != 0 || all[0].revents != 0) give_input();
        for (int s = 0; s < 2; ++s)
            if (all[2 + s].revents != 0 && source[s] >= 0) pass_on(s);
        int status = 0;
        if (all[1].revents != 0) {
            signalfd_siginfo info{};
            call(SYS_read, children, &info, sizeof info);
            if (reap(command, status)) {
                ended = true;
                // What it printed before its end is told before its end.
                for (int s = 0; s < 2; ++s)
                    for (u64 before = ~u64{0}; source[s] >= 0 && spent < credit && before != told[s];) {
                        before = told[s];
                        pass_on(s);
                    }
                ended_with = status;
                tell(RelayKind::Exit, static_cast<u64>(static_cast<std::uint32_t>(status)));
            }
        }
        if (ended && !over && source[0] < 0 && source[1] < 0 && link::is_session()) {
            over = true;
            tell(RelayKind::Over, 0);
        }
    }
    return 0;
}

int run(std::uint32_t uid, std::uint32_t gid)
{
    RelayBegin begin{};
    if (const long bad = read_words(begin); bad < 0) return failed(Step::Body, bad);
    terminal = begin.flags & kTerminal;
    launch.session = true;
    launch.uid = uid;
    launch.gid = gid;
    launch.birth_group = launch.program = -1;
    launch.open_files = launch.processes = launch.file_size = launch.cpu_seconds = kKeepLimit;
    launch.nofile_soft = kKeepLimit;
    int theirs[3] = {-1, -1, -1};
    Step step = Step::Pipe;
    if (const long bad = connect_streams(begin, theirs, step); bad < 0) return failed(step, bad);
    const u64 child_signal = u64{1} << (SIGCHLD - 1);
    const long children = call(SYS_signalfd4, -1, &child_signal, 8, SFD_CLOEXEC | SFD_NONBLOCK);
    if (children < 0) return failed(Step::Descriptors, children);
    const long pid = spawn(launch);
    if (pid < 0) return failed(Step::Clone, pid);
    wait_for_exec(launch, ~u64{0});
    for (int& end : theirs) close_fd(end);
    if (launch.failed_step != Step::None) return failed(launch.failed_step, launch.failed_error);
    pid_inside = static_cast<int>(pid);
    tell(RelayKind::Started, static_cast<u64>(pid));
    return attend(static_cast<int>(pid), static_cast<int>(children));
}

void prepare()
{
    harden();
    call(SYS_prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    remember_terminals();
}

} // namespace

int relay()
{
    prepare();
    return run(static_cast<std::uint32_t>(call(SYS_getuid)), static_cast<std::uint32_t>(call(SYS_getgid)));
}

int relay_session(int, char** argv)
{
    u64 uid = 0, gid = 0;
    if (!parse_number(argv[3], uid) || !parse_number(argv[4], gid)) return 125;
    prepare();
    if (link::open_session(argv[2]) < 0) return 125;
    // Whoever started it may be dead before it has said what to start.
    pollfd door{link::listener(), POLLIN, 0};
    const timespec patience = to_timespec(kFirstClient);
    if (call(SYS_ppoll, &door, 1, &patience, nullptr, 8) <= 0 || !link::accept_client()) return 125;
    const int code = run(static_cast<std::uint32_t>(uid), static_cast<std::uint32_t>(gid));
    call(SYS_unlink, argv[2]);
    return code;
}

} // namespace berth::keeper

// From an EXEC message to a running command with its log.
//
// The files come as descriptors; nothing in a request is a path that the keeper opens. The words
// of the command stay where they were received until the child has left our memory.

#include "keeper/launch.hpp"

#include <fcntl.h>
#include <linux/major.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "keeper/output.hpp"
#include "keeper/requests.hpp"
#include "keeper/spawn.hpp"
#include "keeper/terminal.hpp"
#include "keeper/time.hpp"

namespace berth::keeper {
namespace {

constexpr u64 kPatience = 1'000'000'000; // ns until an execve is called late
constexpr std::size_t kStaticWords = 512;

char rooms[2][kMaxMessage];
int room = 0;

const char* static_words[kStaticWords];
int null_device = -1;
u64 nofile_soft = kKeepLimit;

/// The one launch at a time, and what is to be given back after it.
struct {
    Launch launch;
    Exec* exec; ///< null: none
    int ends[3];
    int program;
    int groups[kMaxGroups];
    std::uint32_t group_count;
    void* body;
    std::size_t body_size;
    void* words;
    std::size_t words_size;
} current;

void forget_launch()
{
    for (int& end : current.ends) close_fd(end);
    close_fd(current.program);
    for (std::uint32_t i = 0; i < current.group_count; ++i) close_fd(current.groups[i]);
    current.group_count = 0;
    if (current.body != nullptr) call(SYS_munmap, current.body, current.body_size);
    if (current.words != nullptr) call(SYS_munmap, current.words, current.words_size);
    current.body = current.words = nullptr;
    current.exec = nullptr;
}

void* map(std::size_t size, int flags, int fd, int protection)
{
    const long at = call(SYS_mmap, nullptr, size, protection, MAP_PRIVATE | flags, fd, 0);
    return at < 0 && at > -4096 ? nullptr : reinterpret_cast<void*>(at);
}

/// A memfd that nobody can change or shorten under us, mapped.
long map_body(int fd, std::size_t length)
{
    constexpr long sealed = F_SEAL_SHRINK | F_SEAL_WRITE | F_SEAL_GROW;
    const long seals = call(SYS_fcntl, fd, F_GET_SEALS);
    if (seals < 0 || (seals & sealed) != sealed) return -EPERM;
    struct stat st{};
    if (call(SYS_fstat, fd, &st) < 0 || st.st_size < static_cast<off_t>(length)) return -EBADMSG;
    current.body = map(length, 0, fd, PROT_READ);
    current.body_size = length;
    return current.body == nullptr ? -ENOMEM : 0;
}

/// Finds cwd, argv and env and points the launch at them: argv and env each end with a null.
long find_words(const Message& m, const ExecRequest& r)
{
    const char* body = m.bytes + sizeof r;
    if (r.flags & kBodyInMemfd) {
        if (const long bad = map_body(m.fd[m.fd_count - 1], r.body_length); bad < 0) return bad;
        body = static_cast<const char*>(current.body);
    }
    const std::size_t slots = std::size_t{r.argc} + r.envc + 3;
    const char** words = static_words;
    if (slots > kStaticWords) {
        current.words_size = slots * sizeof(char*);
        current.words = map(current.words_size, MAP_ANONYMOUS, -1, PROT_READ | PROT_WRITE);
        if (current.words == nullptr) return -ENOMEM;
        words = static_cast<const char**>(current.words);
    }
    if (!split_body(body, r.body_length, r.argc, r.envc, words)) return -EBADMSG;
    current.launch.cwd = words[0];
    const char** env = words + 1 + r.argc;
    for (std::size_t i = r.envc; i > 0; --i) env[i] = env[i - 1];
    env[0] = nullptr;
    env[r.envc + 1] = nullptr;
    current.launch.argv = words + 1;
    current.launch.envp = env + 1;
    return 0;
}

/// A fifo or a socket here would let a client stop the keeper.
bool regular(int fd)
{
    struct stat st{};
    return call(SYS_fstat, fd, &st) == 0 && S_ISREG(st.st_mode);
}

long make_pipe(int& read_end, int& write_end, int& ours, std::uint32_t owner)
{
    int ends[2];
    if (const long r = call(SYS_pipe2, ends, O_CLOEXEC); r < 0) return r;
    read_end = ends[0];
    write_end = ends[1];
    call(SYS_fcntl, ours, F_SETFL, O_NONBLOCK);
    // So that the command may open /dev/stdout again: a pipe belongs to its maker.
    if (call(SYS_getuid) != owner) call(SYS_fchown, ends[0], owner, ~0u);
    return 0;
}

long connect_streams(Exec& x, const ExecRequest& r, Step& step)
{
    Launch& l = current.launch;
    if (r.flags & kTerminal) {
        step = Step::Terminal;
        if (const long bad = open_terminal(r.rows, r.columns, r.uid, x.source[0], current.ends[0]); bad < 0)
            return bad;
        x.input = x.source[0];
        l.input = l.output = l.error = current.ends[0];
        l.terminal = true;
        return 0;
    }
    step = Step::Pipe;
    l.terminal = false;
    for (int s = 0; s < 2; ++s)
        if (const long bad = make_pipe(x.source[s], current.ends[1 + s], x.source[s], r.uid); bad < 0)
            return bad;
    if (r.flags & kStdin)
        if (const long bad = make_pipe(current.ends[0], x.input, x.input, r.uid); bad < 0) return bad;
    l.input = r.flags & kStdin ? current.ends[0] : null_device;
    l.output = current.ends[1];
    l.error = current.ends[2];
    return 0;
}

bool take_log(Message& m, Exec& x)
{
    const int streams = x.flags & kTerminal ? 1 : 2;
    for (int i = 0; i <= streams; ++i)
        if (!regular(m.fd[i])) return false;
    x.index = m.take(0);
    for (int s = 0; s < streams; ++s) x.log[s] = m.take(1 + static_cast<std::uint32_t>(s));
    return true;
}

/// The groups, and behind them the program.
void take_groups(Message& m, const ExecRequest& r)
{
    const std::uint32_t first = r.flags & kTerminal ? 2 : 3;
    for (std::uint32_t i = 0; i < r.group_count; ++i) current.groups[i] = m.take(first + i);
    current.group_count = r.group_count;
    const std::uint32_t born = r.group_kind == GroupKind::V2Directory ? 1 : 0;
    current.launch.birth_group = born ? current.groups[0] : -1;
    current.launch.tasks = current.groups + born;
    current.launch.task_count = r.group_count - born;
    current.program = current.launch.program = m.program;
    m.program = -1;
}

Exec* claim(const Message& m, u64 id, std::uint32_t flags, u64 limit)
{
    long bad = 0;
    if (stopping)
        bad = ESHUTDOWN;
    else if (find_exec(id) != nullptr)
        bad = EEXIST;
    Exec* x = bad == 0 ? claim_slot() : nullptr;
    if (x == nullptr) {
        reply_err(m, id, Step::Table, bad != 0 ? bad : EAGAIN);
        return nullptr;
    }
    x->id = id;
    x->flags = flags;
    x->limit = limit;
    x->owner = m.client;
    x->request = m.header.request;
    begin_time(*x);
    return x;
}

/// Everything up to the clone. On failure `step` says where.
long prepare(Message& m, const ExecRequest& r, Exec& x, Step& step)
{
    step = Step::Body;
    if (const long bad = find_words(m, r); bad < 0) return bad;
    step = Step::Request;
    if (!take_log(m, x)) return -EINVAL;
    take_groups(m, r);
    step = Step::Log;
    if (const long bad = begin_log(x); bad < 0) return bad;
    if (const long bad = connect_streams(x, r, step); bad < 0) return bad;
    Launch& l = current.launch;
    l.session = true;
    l.named = m.named;
    l.uid = r.uid;
    l.gid = r.gid;
    l.open_files = r.open_files;
    l.processes = r.processes;
    l.file_size = r.file_size;
    l.cpu_seconds = r.cpu_seconds;
    l.nofile_soft = nofile_soft;
    step = Step::Clone;
    const long pid = spawn(l);
    if (pid < 0) return pid;
    x.pid = static_cast<int>(pid);
    return 0;
}

} // namespace

void prepare_launches()
{
    for (int& end : current.ends) end = -1;
    current.program = -1;
    struct stat st{};
    null_device = static_cast<int>(
        call(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC));
    if (null_device >= 0 && call(SYS_fstat, null_device, &st) == 0 && S_ISCHR(st.st_mode) &&
        st.st_rdev == device(MEM_MAJOR, 3)) {
        call(SYS_fcntl, null_device, F_SETFL, 0);
    } else {
        // A root of somebody's own making may have no such device: an empty pipe reads the same.
        close_fd(null_device);
        int ends[2];
        if (call(SYS_pipe2, ends, O_CLOEXEC) == 0) {
            null_device = ends[0];
            call(SYS_close, ends[1]);
        }
    }
    // Six descriptors an exec: the usual soft limit would end at 170. Commands get it back.
    rlimit limit{};
    if (call(SYS_prlimit64, 0, RLIMIT_NOFILE, nullptr, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        nofile_soft = limit.rlim_cur;
        limit.rlim_cur = limit.rlim_max;
        call(SYS_prlimit64, 0, RLIMIT_NOFILE, &limit, nullptr);
    }
}

char* request_room() { return rooms[room]; }

bool launch_pending() { return current.exec != nullptr; }

void start_exec(Message& m)
{
    const auto r = load<ExecRequest>(m.bytes);
    if (launch_pending()) return reply_err(m, r.exec, Step::Table, EAGAIN);
    Exec* x = claim(m, r.exec, r.flags, r.log_limit);
    if (x == nullptr) return;
    Step step;
    if (const long bad = prepare(m, r, *x, step); bad < 0) {
        tell_started(*x, step, bad);
        forget_launch();
        release(*x);
        return;
    }
    x->state = State::Starting;
    current.exec = x;
    if (!wait_for_exec(current.launch, kPatience)) {
        room ^= 1; // the child still reads the words of this message
        return;
    }
    check_launch();
}

void check_launch()
{
    Exec* x = current.exec;
    if (x == nullptr || !done(current.launch)) return;
    if (current.launch.failed_step != Step::None) {
        tell_started(*x, current.launch.failed_step, current.launch.failed_error);
        forget_launch();
        release(*x); // its zombie is reaped like any orphan
        return;
    }
    forget_launch();
    x->state = State::Running;
    settle(*x);
    tell_started(*x, Step::None, 0);
}

void adopt_exec(Message& m)
{
    const auto r = load<AdoptRequest>(m.bytes);
    Exec* x = claim(m, r.exec, r.flags, r.log_limit);
    if (x == nullptr) return;
    long bad = take_log(m, *x) ? begin_log(*x) : -EINVAL;
    const std::uint32_t first = r.flags & kTerminal ? 2 : 3;
    const std::uint32_t streams = r.flags & kTerminal ? 1 : 2;
    for (std::uint32_t s = 0; s < streams; ++s) {
        x->source[s] = m.take(first + s);
        if (bad == 0) bad = call(SYS_fcntl, x->source[s], F_SETFL, O_NONBLOCK);
    }
    if (r.flags & kTerminal) {
        x->input = x->source[0];
    } else if (r.flags & kStdin) {
        x->input = m.take(first + 2);
        if (bad == 0) bad = call(SYS_fcntl, x->input, F_SETFL, O_NONBLOCK);
    }
    for (; x->held_count < r.held; ++x->held_count)
        x->held[x->held_count] = m.take(descriptors_of(r) - r.held + x->held_count);
    if (bad < 0) {
        tell_started(*x, Step::Log, bad);
        release(*x);
        return;
    }
    x->pid = r.pid;
    x->state = State::Running;
    settle(*x);
    tell_started(*x, Step::None, 0);
}

} // namespace berth::keeper

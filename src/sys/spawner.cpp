#include "sys/spawner.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <span>
#include <utility>

#include "base/io.hpp"
#include "sys/socket.hpp"

namespace berth::sys {

namespace {

constexpr Bytes kMaxList = 8_MiB;

/// Goes with the list, which lies in a memfd because it may hold long arguments; the descriptors
/// after it are those of the list, then the cgroup's, if any.
struct Request {
    std::uint64_t namespaces;
    std::int32_t low_numbers;
    std::uint16_t has_cgroup;
    std::uint16_t apart;
};

struct Answer {
    std::int32_t pid; ///< 0: failed
    std::int32_t error;
    std::int32_t code;
    char message[500];
};

template <class T> std::string bytes_of(const T& value)
{
    return {reinterpret_cast<const char*>(&value), sizeof value};
}

Result<UniqueFd> memory_with(const std::string& bytes)
{
    UniqueFd fd(static_cast<int>(::syscall(SYS_memfd_create, "steps", 1u /* MFD_CLOEXEC */)));
    if (!fd) return fail_errno("making a memory file");
    BERTH_CHECK(write_all(fd.get(), bytes));
    if (::lseek(fd.get(), 0, SEEK_SET) != 0) return fail_errno("rewinding a memory file");
    return fd;
}

Result<LaunchedApart> serve_one(Message message)
{
    Request request{};
    if (message.bytes.size() != sizeof request || message.fds.empty())
        return fail(Code::Invalid, "a launch request of {} bytes", message.bytes.size());
    std::memcpy(&request, message.bytes.data(), sizeof request);
    BERTH_TRY(const auto bytes, read_to_end(message.fds.front().get(), kMaxList, "list of steps"));
    message.fds.erase(message.fds.begin());
    UniqueFd cgroup;
    if (request.has_cgroup != 0 && !message.fds.empty()) {
        cgroup = std::move(message.fds.back());
        message.fds.pop_back();
    }
    BERTH_TRY(auto list, StepList::decode(bytes, std::move(message.fds)));
    const LaunchOptions options{
        .namespaces = request.namespaces, .cgroup = cgroup.get(), .low_numbers = request.low_numbers};
    if (request.apart != 0) return launch_apart(list, options);
    LaunchedApart out;
    BERTH_TRY(out.child, launch(list, options));
    return out;
}

Status reply(int socket, const Result<LaunchedApart>& launched)
{
    Answer answer{};
    if (launched) {
        answer.pid = launched->child.pid;
        const int fds[] = {launched->child.pidfd.get(), launched->report.get()};
        return send_message(socket, bytes_of(answer), std::span(&fds[0], launched->report ? 2 : 1));
    }
    const Error& error = launched.error();
    answer.error = error.sys.value();
    answer.code = static_cast<std::int32_t>(error.code);
    error.message.copy(&answer.message[0], sizeof answer.message - 1);
    return send_message(socket, bytes_of(answer));
}

/// Launches until the maker is gone. Nobody asks how children ended, so the kernel reaps them; by a flag,
/// which they do not inherit as they would an ignored signal.
[[noreturn]] void serve(int socket)
{
    ::prctl(PR_SET_NAME, "berth-spawner");
    ::setsid(); // a terminal's signals are its maker's, who may have launches left
    struct sigaction reaped{};
    reaped.sa_handler = SIG_DFL;
    reaped.sa_flags = SA_NOCLDWAIT;
    ::sigaction(SIGCHLD, &reaped, nullptr);
    for (;;) {
        // Everything that launches needs is in the message; anything else open here is a leak.
        auto message = receive_message(socket, Bytes{sizeof(Request)}, kMaxPassedFds);
        if (!message || message->bytes.empty()) ::_exit(0);
        if (!reply(socket, serve_one(*std::move(message)))) ::_exit(0);
    }
}

} // namespace

Result<Spawner> Spawner::start()
{
    BERTH_TRY(auto pair, socket_pair(SocketKind::SeqPacket));
    const pid_t pid = ::fork();
    if (pid < 0) return fail_errno("starting the spawner");
    if (pid == 0) {
        pair.first.reset(); // a maker without standard streams has it below 3, and its end must be told
        const int socket = ::fcntl(pair.second.get(), F_DUPFD_CLOEXEC, 3);
        ::dup3(socket, 3, O_CLOEXEC);
        ::close_range(4, ~0u, 0);
        serve(3);
    }
    return Spawner(pid, std::move(pair.first));
}

Spawner::Spawner(Spawner&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), socket_(std::move(other.socket_)),
      conversation_(std::move(other.conversation_))
{
}

Spawner::~Spawner()
{
    if (pid_ < 0) return;
    socket_.reset();
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
}

namespace {

std::unique_ptr<Spawner>& companion_slot()
{
    static std::unique_ptr<Spawner> one;
    return one;
}

} // namespace

Status Spawner::start_companion()
{
    BERTH_TRY(auto started, start());
    companion_slot() = std::make_unique<Spawner>(std::move(started));
    return {};
}

Spawner* Spawner::companion() noexcept { return companion_slot().get(); }

Result<std::optional<LaunchedApart>> Spawner::ask(const StepList& list, const LaunchOptions& options,
                                                  bool apart)
{
    BERTH_TRY(const auto memory, memory_with(list.encode()));
    std::vector<int> fds{memory.get()};
    for (const int fd : list.travelling()) fds.push_back(fd);
    if (options.cgroup >= 0) fds.push_back(options.cgroup);
    if (fds.size() > kMaxPassedFds) return fail(Code::Exhausted, "a launch with {} descriptors", fds.size());
    const Request request{.namespaces = options.namespaces,
                          .low_numbers = options.low_numbers,
                          .has_cgroup = options.cgroup >= 0 ? std::uint16_t{1} : std::uint16_t{0},
                          .apart = apart ? std::uint16_t{1} : std::uint16_t{0}};
    const std::scoped_lock alone(*conversation_);
    if (auto sent = send_message(socket_.get(), bytes_of(request), fds); !sent) {
        if (sent.error().sys.value() == EPIPE || sent.error().sys.value() == ECONNRESET)
            return std::optional<LaunchedApart>();
        return std::unexpected(std::move(sent).error().while_doing("asking the spawner"));
    }
    BERTH_TRY(auto message, receive_message(socket_.get(), Bytes{sizeof(Answer)}, 2));
    Answer answer{};
    // It may have begun: whoever asks again must not find two.
    if (message.bytes.size() != sizeof answer) return fail(Code::Unavailable, "the spawner is gone");
    std::memcpy(&answer, message.bytes.data(), sizeof answer);
    if (answer.pid > 0 && message.fds.size() == (apart ? 2u : 1u)) {
        LaunchedApart out;
        out.child = {.pid = answer.pid, .pidfd = std::move(message.fds.front())};
        if (apart) out.report = std::move(message.fds.back());
        return out;
    }
    answer.message[sizeof answer.message - 1] = '\0';
    return std::unexpected(Error{.code = static_cast<Code>(answer.code),
                                 .message = &answer.message[0],
                                 .sys = std::error_code(answer.error, std::generic_category())});
}

Result<Launched> Spawner::launch(StepList& list, const LaunchOptions& options)
{
    BERTH_TRY(auto done, ask(list, options, false));
    if (!done) return sys::launch(list, options);
    return std::move(done->child);
}

Result<LaunchedApart> Spawner::launch_apart(StepList& list, const LaunchOptions& options)
{
    BERTH_TRY(auto done, ask(list, options, true));
    if (!done) return sys::launch_apart(list, options);
    return *std::move(done);
}

} // namespace berth::sys

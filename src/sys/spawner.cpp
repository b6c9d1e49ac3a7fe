#include "sys/spawner.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
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
    std::int32_t has_cgroup;
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

Result<Launched> serve_one(Message message)
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
    return launch(list, options);
}

Status reply(int socket, Result<Launched> launched)
{
    Answer answer{};
    if (launched) {
        answer.pid = launched->pid;
        const int fd = launched->pidfd.get();
        return send_message(socket, bytes_of(answer), {&fd, 1});
    }
    const Error& error = launched.error();
    answer.error = error.sys.value();
    answer.code = static_cast<std::int32_t>(error.code);
    error.message.copy(&answer.message[0], sizeof answer.message - 1);
    return send_message(socket, bytes_of(answer));
}

/// Launches until the maker is gone. Nobody asks how children ended, so the kernel reaps them.
[[noreturn]] void serve(int socket)
{
    ::prctl(PR_SET_NAME, "berth-spawner");
    std::signal(SIGCHLD, SIG_IGN);
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
        const int socket = ::fcntl(pair.second.get(), F_DUPFD_CLOEXEC, 3);
        ::dup3(socket, 3, O_CLOEXEC);
        ::close_range(4, ~0u, 0);
        serve(3);
    }
    return Spawner(pid, std::move(pair.first));
}

Spawner::Spawner(Spawner&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), socket_(std::move(other.socket_))
{
}

Spawner::~Spawner()
{
    if (pid_ < 0) return;
    socket_.reset();
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
}

Result<Launched> Spawner::launch(const StepList& list, const LaunchOptions& options)
{
    BERTH_TRY(const auto memory, memory_with(list.encode()));
    std::vector<int> fds{memory.get()};
    for (const int fd : list.travelling()) fds.push_back(fd);
    if (options.cgroup >= 0) fds.push_back(options.cgroup);
    if (fds.size() > kMaxPassedFds) return fail(Code::Exhausted, "a launch with {} descriptors", fds.size());
    const Request request{.namespaces = options.namespaces,
                          .low_numbers = options.low_numbers,
                          .has_cgroup = options.cgroup >= 0 ? 1 : 0};
    if (auto sent = send_message(socket_.get(), bytes_of(request), fds); !sent)
        return std::unexpected(std::move(sent).error().while_doing("asking the spawner"));
    BERTH_TRY(auto message, receive_message(socket_.get(), Bytes{sizeof(Answer)}, 1));
    Answer answer{};
    if (message.bytes.size() != sizeof answer) return fail(Code::Unavailable, "the spawner is gone");
    std::memcpy(&answer, message.bytes.data(), sizeof answer);
    if (answer.pid > 0 && message.fds.size() == 1)
        return Launched{.pid = answer.pid, .pidfd = std::move(message.fds.front())};
    answer.message[sizeof answer.message - 1] = '\0';
    return std::unexpected(Error{.code = static_cast<Code>(answer.code),
                                 .message = &answer.message[0],
                                 .sys = std::error_code(answer.error, std::generic_category())});
}

} // namespace berth::sys

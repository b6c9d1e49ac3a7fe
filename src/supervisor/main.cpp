// Protects what deny patterns name, also what is made later, from the commands of one sandbox. It relies on
// the kernel's notifications: each call waits until it is answered here, and fails where nobody answers. It
// lives in the sandbox's namespaces and dies with the sandbox's first process.
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "supervisor/supervisor.hpp"

namespace berth::supervisor {

namespace {

constexpr int kLookAfter = 50;   // milliseconds, and only while somebody waits
constexpr unsigned kTurns = 256; // and after so many calls, where there is no pause

long carry_out(const Call& call)
{
    if (const long r = act_as(call); r < 0) return r;
    const auto a = [&](unsigned i) { return call.arg(i); };
    const auto w = [&](unsigned i) { return call.word(i); };
    switch (call.asked->data.nr) {
    case SYS_open: return open_file(call, AT_FDCWD, a(0), w(1), static_cast<unsigned>(w(2)));
    case SYS_openat: return open_file(call, w(0), a(1), w(2), static_cast<unsigned>(w(3)));
    case SYS_creat:
        return open_file(call, AT_FDCWD, a(0), O_CREAT | O_WRONLY | O_TRUNC, static_cast<unsigned>(w(1)));
    case SYS_execve:
    case SYS_execveat: return execute(call);
    default: {
        const long named = change_names(call);
        return named == -ENOSYS ? change_attributes(call) : named;
    }
    }
}

int receive_listener()
{
    char byte = 0;
    iovec io{.iov_base = &byte, .iov_len = 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))]{};
    msghdr message{};
    message.msg_iov = &io;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    ssize_t n = 0;
    do n = ::recvmsg(kSocket, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    const cmsghdr* const head = n == 1 ? CMSG_FIRSTHDR(&message) : nullptr;
    if (head == nullptr || head->cmsg_type != SCM_RIGHTS || head->cmsg_len != CMSG_LEN(sizeof(int)))
        return -1;
    int fd = -1;
    memcpy(&fd, CMSG_DATA(head), sizeof fd);
    return fd;
}

/// Nobody inside can look at us, and no signal but a deadly one changes what we do.
bool harden()
{
    if (::prctl(PR_SET_DUMPABLE, 0) != 0) return false;
    struct sigaction wake{};
    wake.sa_handler = [](int) {};
    if (::sigaction(SIGUSR1, &wake, nullptr) != 0) return false;
    sigset_t all;
    ::sigfillset(&all);
    return ::sigprocmask(SIG_SETMASK, &all, nullptr) == 0;
}

Config* map_config()
{
    struct stat st{};
    if (::fstat(kConfig, &st) != 0 || st.st_size < static_cast<off_t>(sizeof(Config))) return nullptr;
    void* const at =
        ::mmap(nullptr, static_cast<std::size_t>(st.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, kConfig, 0);
    if (at == MAP_FAILED) return nullptr;
    auto* const config = static_cast<Config*>(at);
    return sizeof(Config) + config->bytes <= static_cast<std::size_t>(st.st_size) ? config : nullptr;
}

int serve(int listener)
{
    // Since 6.6: who asks and who answers take turns on one processor. Elsewhere it is only slower.
    constexpr unsigned long set_flags = _IOW('!', 4, std::uint64_t);
    ::ioctl(listener, set_flags, 1ul /* SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP */);
    int waiting = 0;
    for (unsigned turn = 0;; ++turn) {
        pollfd look{.fd = listener, .events = POLLIN, .revents = 0};
        const int ready = ::poll(&look, 1, waiting > 0 ? kLookAfter : -1);
        if (ready < 0 && errno != EINTR) return 1;
        if (waiting > 0 && (ready == 0 || turn % kTurns == 0)) waiting = tend_waiters(listener);
        if (ready <= 0) continue;
        if ((look.revents & POLLIN) == 0) return 0; // nobody is left under the filter
        seccomp_notif asked{};
        if (::ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked) != 0) {
            if (errno == EINTR || errno == ENOENT) continue;
            return 1;
        }
        const Call call{.listener = listener, .asked = &asked};
        const long answer = carry_out(call);
        if (answer != kAnswered) call.answer(answer);
        waiting = waiters();
    }
}

} // namespace
} // namespace berth::supervisor

int main(int argc, char** argv, char** environment)
{
    using namespace berth::supervisor;
    if (argc > 1) return become(argc, argv, environment);
    if (!harden()) return 1;
    Config* const config = map_config();
    if (config == nullptr || !read_rules(config)) return 1;
    find_proc();
    const int listener = receive_listener();
    ::close(kSocket);
    ::close(kConfig);
    if (listener < 0) return 1;
    return serve(listener);
}

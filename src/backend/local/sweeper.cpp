#include "backend/local/sweeper.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>

#include "base/io.hpp"
#include "keeping/protect.hpp"

namespace berth::local {

namespace {

/// What we launched dies with us, but each takes its time, and holds its placeholders until then.
constexpr int kLooks = 200;
constexpr timespec kBetween{.tv_sec = 0, .tv_nsec = 50'000'000};

bool placeholders_left(int state)
{
    const UniqueFd dir(::openat(state, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    const auto names = dir ? list_names(dir.get()) : fail(Code::NotFound, "gone");
    return names &&
           std::ranges::any_of(*names, [](const auto& name) { return name.starts_with("placeholder-"); });
}

[[noreturn]] void companion(int state, int told)
{
    ::setsid();
    ::prctl(PR_SET_NAME, "berth-sweeper");
    for (const int signo : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) std::signal(signo, SIG_IGN);
    // Streams of ours must end when we do, not when it does.
    for (int fd = 0; fd < 3; ++fd) ::close(fd);
    char byte = 0;
    ssize_t n = 0;
    while ((n = ::read(told, &byte, 1)) < 0 && errno == EINTR) {
    }
    if (n > 0) ::_exit(0); // an orderly end: everything has been put away
    for (int look = 0; look < kLooks && placeholders_left(state); ++look) {
        const UniqueFd again(::fcntl(state, F_DUPFD_CLOEXEC, 3));
        (void)keeping::ProtectedNames::sweep(again.get());
        ::nanosleep(&kBetween, nullptr);
    }
    ::_exit(0);
}

} // namespace

Result<Sweeper> Sweeper::start(const StateDir& state)
{
    int ends[2];
    if (::pipe2(&ends[0], O_CLOEXEC) != 0) return fail_errno("making a pipe");
    const UniqueFd told(ends[0]);
    UniqueFd alive(ends[1]);
    const pid_t pid = ::fork();
    if (pid < 0) return fail_errno("starting the sweeper");
    if (pid == 0) {
        alive.reset();
        companion(state.fd(), told.get());
    }
    return Sweeper(pid, std::move(alive));
}

Sweeper::~Sweeper()
{
    if (!alive_) return;
    (void)!::write(alive_.get(), "x", 1);
    alive_.reset();
    while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
}

} // namespace berth::local

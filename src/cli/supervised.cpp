#include "cli/supervised.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <iostream>

#include "cli/app.hpp"

namespace berth::cli {

namespace {

constexpr int kBySignal = 128;

sigset_t set_of(std::initializer_list<int> signals)
{
    sigset_t set;
    sigemptyset(&set);
    for (const int signo : signals) {
        struct sigaction now{};
        ::sigaction(signo, nullptr, &now);
        if (now.sa_handler != SIG_IGN) sigaddset(&set, signo); // nohup(1) means it
    }
    return set;
}

} // namespace

int supervised(const std::function<int()>& work, const std::function<void()>& undo)
{
    const sigset_t watched = set_of({SIGINT, SIGTERM, SIGHUP, SIGCHLD});
    sigset_t before;
    ::pthread_sigmask(SIG_BLOCK, &watched, &before);
    std::cout.flush();
    const pid_t child = ::fork();
    if (child < 0) {
        ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
        return work(); // no process to be had: then without
    }
    if (child == 0) {
        ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
        const int code = work();
        std::cout.flush();
        ::_exit(std::cout.good() ? code : 1);
    }
    int ended_by = 0;
    for (;;) {
        int signo = 0;
        if (::sigwait(&watched, &signo) != 0) continue;
        if (signo != SIGCHLD) {
            ended_by = signo;
            ::kill(child, SIGKILL);
        }
        int status = 0;
        if (::waitpid(child, &status, signo == SIGCHLD ? WNOHANG : 0) != child) continue;
        if (WIFEXITED(status)) { // it may have been done when the signal came
            ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
            return WEXITSTATUS(status);
        }
        if (ended_by == 0) ended_by = WTERMSIG(status); // of a terminal: both of us got it
        break;
    }
    // Whoever is impatient now would leave what is put right here.
    undo();
    return kBySignal + ended_by;
}

} // namespace berth::cli

#pragma once

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace berth::image {

/// Runs `body` in a child process and answers with its wait status; 0 when it said true.
inline pid_t start_child(const std::function<bool()>& body)
{
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(body() ? 0 : 1);
    return pid;
}

inline int wait_for(pid_t pid)
{
    int status = -1;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

/// True when the child was killed at the label, and not before or never.
inline bool killed_at(const char* label, const std::function<bool()>& body)
{
    const int status = wait_for(start_child([&] {
        ::setenv("BERTH_TEST_KILL", label, 1);
        return body();
    }));
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

} // namespace berth::image

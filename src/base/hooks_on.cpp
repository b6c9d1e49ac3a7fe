#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>

#include "base/hooks.hpp"

namespace berth::hooks {

namespace {

bool listed(const char* variable, std::string_view word)
{
    const char* text = std::getenv(variable); // NOLINT(concurrency-mt-unsafe): tests set it before start
    if (text == nullptr) return false;
    std::string_view rest = text;
    while (!rest.empty()) {
        const auto comma = rest.find(',');
        if (rest.substr(0, comma) == word) return true;
        if (comma == std::string_view::npos) return false;
        rest.remove_prefix(comma + 1);
    }
    return false;
}

/// BERTH_TEST_LABELS=file: every label that is reached becomes a line of it.
void note_label(std::string_view label)
{
    const char* file = std::getenv("BERTH_TEST_LABELS"); // NOLINT(concurrency-mt-unsafe)
    if (file == nullptr) return;
    const int fd = ::open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    const std::string line = std::string(label) + "\n";
    [[maybe_unused]] const auto n = ::write(fd, line.data(), line.size());
    ::close(fd);
}

} // namespace

void kill_point(std::string_view label)
{
    if (kill_at(label)) std::raise(SIGKILL);
}

bool kill_at(std::string_view label)
{
    note_label(label);
    return listed("BERTH_TEST_KILL", label);
}

int executioner()
{
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, &ends[0]) != 0) std::abort();
    const pid_t victim = ::getpid();
    const pid_t pid = ::fork();
    if (pid < 0) std::abort();
    if (pid != 0) {
        ::close(ends[1]);
        return ends[0];
    }
    // It holds nothing of ours open: pipes and locks must end with us.
    ::dup2(ends[1], 0);
    ::syscall(SYS_close_range, 1u, ~0u, 0u);
    char byte = 0;
    if (::read(0, &byte, 1) == 1) {
        pollfd dead{
            .fd = static_cast<int>(::syscall(SYS_pidfd_open, victim, 0)), .events = POLLIN, .revents = 0};
        ::kill(victim, SIGKILL);
        ::poll(&dead, 1, 10'000);
        [[maybe_unused]] const auto n = ::write(0, &byte, 1);
    }
    ::_exit(0);
}

bool wall_off(std::string_view wall) { return listed("BERTH_TEST_WALLS_OFF", wall); }
bool lacks(std::string_view facility) { return listed("BERTH_TEST_LACK", facility); }
bool available() { return true; }

} // namespace berth::hooks

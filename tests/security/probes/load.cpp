// Attempts on capacity. Every bomb is bounded: where a wall is off it must not hurt the machine.

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "probe.hpp"

namespace probe {
namespace {

/// Forks children that stay until the first refusal or the given number; says how far it came.
int fork_bomb(const Words& w)
{
    int made = 0;
    int error = 0;
    for (; made < std::stoi(w.at(0)); ++made) {
        const pid_t child = ::fork();
        if (child < 0) {
            error = errno;
            break;
        }
        if (child == 0)
            for (;;) ::pause();
    }
    return say((error == 0 ? "ok" : ::strerrorname_np(error)) + (" " + std::to_string(made)));
}

/// Touches memory up to the given number of MiB.
int memory_bomb(const Words& w)
{
    const std::size_t size = std::stoul(w.at(0)) << 20;
    void* at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return errno;
    for (std::size_t i = 0; i < size; i += 4096) static_cast<volatile char*>(at)[i] = 1;
    return 0;
}

/// The given number of MiB on stdout: byte i of the stream is i modulo 251.
int flood(const Words& w)
{
    static unsigned char block[251 * 256];
    for (std::size_t i = 0; i < sizeof block; ++i) block[i] = static_cast<unsigned char>(i % 251);
    std::size_t left = std::stoul(w.at(0)) << 20;
    std::size_t at = 0;
    while (left > 0) {
        const std::size_t chunk = std::min(left, sizeof block - at);
        const ssize_t n = ::write(1, block + at, chunk);
        if (n < 0) return errno;
        left -= static_cast<std::size_t>(n);
        at = (at + static_cast<std::size_t>(n)) % sizeof block;
    }
    return kSaid;
}

/// Orphans that die at once, all left to pid 1; then whether any corpse is still there.
int zombies(const Words& w)
{
    const int count = std::stoi(w.at(0));
    for (int i = 0; i < count; ++i) {
        const pid_t child = ::fork();
        if (child < 0) return errno;
        if (child == 0) {
            if (::fork() >= 0) ::_exit(0);
            ::_exit(1);
        }
        int status = 0;
        ::waitpid(child, &status, 0);
        if (WEXITSTATUS(status) != 0) return EAGAIN;
    }
    return 0;
}

constexpr Entry kEntries[] = {
    {"fork-bomb", fork_bomb},
    {"memory-bomb", memory_bomb},
    {"flood", flood},
    {"zombies", zombies},
};

} // namespace

std::span<const Entry> load_probes() { return kEntries; }

} // namespace probe

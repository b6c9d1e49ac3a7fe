#pragma once

#include <cstdint>

/// System calls without libc: no errno, no cancellation, no locks. The only thing a child that
/// shares its parent's memory may use between clone and exec. Answers are negative on failure.
namespace berth::sys {

inline long raw(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) noexcept
{
    long result = 0;
    register long r10 asm("r10") = d;
    register long r8 asm("r8") = e;
    register long r9 asm("r9") = f;
    asm volatile("syscall"
                 : "=a"(result)
                 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                 : "rcx", "r11", "memory");
    return result;
}

template <class T> inline long arg(T* pointer) noexcept
{
    return static_cast<long>(reinterpret_cast<std::uintptr_t>(pointer)); // NOLINT(performance-no-int-to-ptr)
}

/// struct clone_args of linux/sched.h, which clashes with <sched.h>.
struct CloneArgs {
    std::uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls, set_tid,
        set_tid_size, cgroup;
};

/// clone3 onto a stack of its own: the child calls `entry(argument)` and exits with its answer.
/// The parent gets the pid or a negative errno.
extern "C" long berth_clone3(CloneArgs* args, std::uint64_t size, int (*entry)(void*),
                             void* argument) noexcept;

} // namespace berth::sys

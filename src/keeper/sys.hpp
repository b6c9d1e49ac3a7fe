#pragma once

#include <errno.h>
#include <sys/syscall.h>
#include <time.h>

#include <cstddef>
#include <cstdint>

/// System calls without a libc: a negative answer is the errno.
namespace berth::keeper {

using u64 = std::uint64_t;

inline long raw(long number, long a, long b, long c, long d, long e, long f)
{
    long result;
    register long r10 asm("r10") = d;
    register long r8 asm("r8") = e;
    register long r9 asm("r9") = f;
    asm volatile("syscall"
                 : "=a"(result)
                 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                 : "rcx", "r11", "memory");
    return result;
}

inline long word(long value) { return value; }
inline long word(unsigned long value) { return static_cast<long>(value); }
inline long word(int value) { return value; }
inline long word(unsigned value) { return static_cast<long>(value); }
inline long word(const void* pointer) { return reinterpret_cast<long>(pointer); }
inline long word(std::nullptr_t) { return 0; }

template <class A = int, class B = int, class C = int, class D = int, class E = int, class F = int>
inline long call(long number, A a = 0, B b = 0, C c = 0, D d = 0, E e = 0, F f = 0)
{
    return raw(number, word(a), word(b), word(c), word(d), word(e), word(f));
}

inline void close_fd(int& fd)
{
    if (fd >= 0) call(SYS_close, fd);
    fd = -1;
}

inline u64 clock_ns(clockid_t clock)
{
    timespec t{};
    call(SYS_clock_gettime, clock, &t);
    return static_cast<u64>(t.tv_sec) * 1'000'000'000u + static_cast<u64>(t.tv_nsec);
}
inline u64 wall_ns() { return clock_ns(CLOCK_REALTIME); }
inline u64 steady_ns() { return clock_ns(CLOCK_MONOTONIC); }

inline timespec to_timespec(u64 ns)
{
    return {static_cast<time_t>(ns / 1'000'000'000u), static_cast<long>(ns % 1'000'000'000u)};
}

/// st_rdev of a device with small numbers, as stat(2) encodes it.
constexpr u64 device(u64 major, u64 minor) { return major << 8 | minor; }

/// Blocks every signal, sets every disposition to its default, makes the process non-dumpable
/// (nobody inside reads its memory, environment, root or descriptors) and every inherited
/// descriptor from 3 on close-on-exec.
void harden();

/// A decimal word; false for anything else.
bool parse_number(const char* text, u64& value);

} // namespace berth::keeper

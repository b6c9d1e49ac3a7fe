// Entry of the freestanding program: no libc runs before or below this.

#include <linux/close_range.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>

#include "keeper/modes.hpp"
#include "keeper/sys.hpp"

// The compiler may call these two wherever it copies or clears a structure.
extern "C" {
__attribute__((used)) void* memcpy(void* to, const void* from, std::size_t n)
{
    void* result = to;
    asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n)::"memory");
    return result;
}

__attribute__((used)) void* memset(void* to, int byte, std::size_t n)
{
    void* result = to;
    asm volatile("rep stosb" : "+D"(to), "+c"(n) : "a"(byte) : "memory");
    return result;
}
}

namespace berth::keeper {

void harden()
{
    const u64 all = ~u64{0};
    call(SYS_rt_sigprocmask, SIG_SETMASK, &all, nullptr, 8);
    call(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0);
    // Commands inherit dispositions, and an ignored signal stays ignored through execve(2).
    struct {
        void* handler;
        u64 flags;
        void* restorer;
        u64 mask;
    } const by_default{};
    for (int signal = 1; signal <= 64; ++signal) call(SYS_rt_sigaction, signal, &by_default, nullptr, 8);
    // With 0 to 2 taken, no descriptor of ours can be overwritten while a child sets up its own.
    for (int fd = 0; fd < 3; ++fd)
        if (call(SYS_fcntl, fd, 1 /* F_GETFD */) < 0) call(SYS_eventfd2, 0, 0);
    call(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC);
}

bool parse_number(const char* text, u64& value)
{
    value = 0;
    if (*text == '\0') return false;
    for (; *text != '\0'; ++text) {
        if (*text < '0' || *text > '9' || value > (~u64{0} - 9) / 10) return false;
        value = value * 10 + static_cast<u64>(*text - '0');
    }
    return true;
}

namespace {

int enter(int argc, char** argv, char** envp)
{
    if (argc >= 3 && argv[1][0] == 'c') {
        if (argv[1][1] == '\0') return keep_container(argc, argv);
        // For containers whose engine was not asked for it.
        if (argv[1][1] == 'n' && argv[1][2] == '\0' && call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
            return keep_container(argc, argv);
    }
    if (argc == 2 && argv[1][0] == 'x' && argv[1][1] == '\0') return relay();
    if (argc == 5 && argv[1][0] == 'x' && argv[1][1] == 's') return relay_session(argc, argv);
    if (argc == 3 && argv[1][0] == 'x' && (argv[1][1] == 'a' || argv[1][1] == 'w'))
        return attach_session(argv[2], argv[1][1] == 'w');
    if (argc < 2 || argv[0][1] != '\0') return 125;
    if (argv[0][0] == 'k') return keep(argc, argv);
    if (argv[0][0] == 'o') return run_once(argc, argv, envp);
    return 125;
}

} // namespace
} // namespace berth::keeper

extern "C" __attribute__((used, noreturn)) void berth_keeper_start(long* stack)
{
    const int argc = static_cast<int>(stack[0]);
    char** argv = reinterpret_cast<char**>(stack + 1);
    berth::keeper::call(SYS_exit_group, berth::keeper::enter(argc, argv, argv + argc + 1));
    __builtin_unreachable();
}

asm(".text\n.globl _start\n_start:\n"
    " xor %ebp,%ebp\n mov %rsp,%rdi\n and $-16,%rsp\n call berth_keeper_start\n");

#include "sys/userns.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <csignal>

#include "base/io.hpp"
#include "base/scope_exit.hpp"
#include "sys/raw_syscall.hpp"

namespace berth::sys {

namespace {

int hold(void*)
{
    for (;;) raw(SYS_pause);
}

std::string map_text(const std::vector<IdMapping>& map)
{
    std::string text;
    for (const auto& m : map) text += fmt::format("{} {} {}\n", m.inside, m.outside, m.count);
    return text;
}

} // namespace

Result<UniqueFd> make_user_namespace(const std::vector<IdMapping>& uids, const std::vector<IdMapping>& gids)
{
    constexpr std::size_t stack_size = 16384;
    // The holder only pauses; it shares our memory so that no page table is copied for it.
    void* stack = ::mmap(nullptr, stack_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED) return fail_errno("mapping a stack");
    ScopeExit unmap([&] { ::munmap(stack, stack_size); });

    CloneArgs args{};
    args.flags = CLONE_VM | CLONE_NEWUSER;
    args.exit_signal = 0; // nobody is told: it is waited for below, by __WALL
    args.stack = static_cast<std::uint64_t>(arg(stack));
    args.stack_size = stack_size;
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    const long pid = berth_clone3(&args, sizeof args, hold, nullptr);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (pid < 0) return fail_with(static_cast<int>(pid), "making a user namespace");
    ScopeExit end([&] {
        ::kill(static_cast<pid_t>(pid), SIGKILL);
        while (::waitpid(static_cast<pid_t>(pid), nullptr, __WALL) < 0 && errno == EINTR) {
        }
    });

    const std::string dir = fmt::format("/proc/{}", pid);
    if (!uids.empty()) BERTH_CHECK(write_control(dir + "/uid_map", map_text(uids)));
    if (!gids.empty()) BERTH_CHECK(write_control(dir + "/gid_map", map_text(gids)));
    UniqueFd fd(::open((dir + "/ns/user").c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd) return fail_errno("opening {}/ns/user", dir);
    return fd;
}

} // namespace berth::sys

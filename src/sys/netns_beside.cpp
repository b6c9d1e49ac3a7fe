#include "sys/netns_beside.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <new>
#include <utility>

#include "sys/raw_syscall.hpp"

namespace berth::sys {

namespace {

constexpr std::size_t kStackSize = 16384;

} // namespace

NetNamespaceBeside::NetNamespaceBeside(NetNamespaceBeside&& other) noexcept
    : maker_(std::move(other.maker_)), ready_(std::move(other.ready_)), pid_(std::exchange(other.pid_, -1)),
      stack_(std::exchange(other.stack_, nullptr))
{
}

NetNamespaceBeside& NetNamespaceBeside::operator=(NetNamespaceBeside&& other) noexcept
{
    if (this == &other) return *this;
    settle();
    maker_ = std::move(other.maker_);
    ready_ = std::move(other.ready_);
    pid_ = std::exchange(other.pid_, -1);
    stack_ = std::exchange(other.stack_, nullptr);
    return *this;
}

void NetNamespaceBeside::settle() noexcept
{
    if (pid_ > 0) {
        auto& busy = static_cast<NetNamespaceOrder*>(stack_)->busy;
        while (__atomic_load_n(&busy, __ATOMIC_ACQUIRE) != 0) raw(SYS_futex, arg(&busy), FUTEX_WAIT, 1, 0);
        ::kill(pid_, SIGKILL); // ours, and not waited for yet
        while (::waitpid(pid_, nullptr, __WALL) < 0 && errno == EINTR) {
        }
        pid_ = -1;
    }
    if (stack_ != nullptr) ::munmap(stack_, kStackSize);
    stack_ = nullptr;
    maker_.reset();
    ready_.reset();
}

Result<NetNamespaceBeside> NetNamespaceBeside::begin()
{
    NetNamespaceBeside made;
    made.ready_.reset(::eventfd(0, EFD_CLOEXEC));
    if (!made.ready_) return fail_errno("making an event descriptor");
    void* stack = ::mmap(nullptr, kStackSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED) return fail_errno("mapping a stack");
    made.stack_ = stack;
    // At the far end of the stack, out of the way.
    auto* const order = new (stack) NetNamespaceOrder{.from = ::getpid(), .ready = made.ready_.get()};

    int pidfd = -1;
    CloneArgs args{};
    // Memory and descriptors are shared, so that none are copied for it.
    args.flags = CLONE_VM | CLONE_FILES | CLONE_PIDFD | CLONE_CHILD_CLEARTID;
    args.child_tid = static_cast<std::uint64_t>(arg(&order->busy));
    args.pidfd = static_cast<std::uint64_t>(arg(&pidfd));
    args.exit_signal = 0; // nobody is told: it is waited for in settle(), by __WALL
    args.stack = static_cast<std::uint64_t>(arg(stack));
    args.stack_size = kStackSize;
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    const long pid = berth_clone3(&args, sizeof args, make_net_namespace_beside, order);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (pid < 0) return fail_with(static_cast<int>(pid), "starting the maker of a network namespace");
    made.pid_ = static_cast<pid_t>(pid);
    made.maker_.reset(pidfd);
    return made;
}

} // namespace berth::sys

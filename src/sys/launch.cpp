#include "sys/launch.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <mutex>
#include <new>

#include "base/scope_exit.hpp"
#include "sys/raw_syscall.hpp"

namespace berth::sys {

namespace {

constexpr std::uint64_t kCloneClearSighand = 0x100000000ull;
constexpr std::uint64_t kCloneIntoCgroup = 0x200000000ull;
constexpr std::size_t kStackSize = 64u << 10;
constexpr std::size_t kGuard = 4096;
constexpr std::size_t kDepth = 3;

/// Stacks with a guard page below each, mapped once for the process: a launch may clone twice more,
/// and every child of the chain shares the memory with those that wait for it. Returns the top of the
/// first; those beyond `depth` may not be touched.
Result<char*> stacks(std::size_t depth)
{
    static char* area = nullptr;
    static std::size_t usable = 0;
    if (area == nullptr) {
        void* mapped = ::mmap(nullptr, kDepth * (kStackSize + kGuard), PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
        if (mapped == MAP_FAILED) return fail_errno("mapping stacks for a launch");
        area = static_cast<char*>(mapped);
    }
    for (; usable < depth; ++usable)
        if (::mprotect(area + usable * (kStackSize + kGuard) + kGuard, kStackSize, PROT_READ | PROT_WRITE) !=
            0)
            return fail_errno("mapping stacks for a launch");
    return area + kStackSize + kGuard;
}

struct Start {
    StepImage* image;
    bool apart;
};

int first_child(void* argument)
{
    const auto& start = *static_cast<Start*>(argument);
    // Before any of us has an id that a sandbox has, too. The copy is never made dumpable again.
    if (start.apart && raw(SYS_prctl, PR_SET_DUMPABLE, 0) < 0) return 125;
    return run_block(*start.image, 0, 0);
}

/// Where children with a copy of our memory tell which step failed.
Result<StepImage*> shared_image()
{
    void* mapped =
        ::mmap(nullptr, sizeof(StepImage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) return fail_errno("mapping the report of a launch");
    return new (mapped) StepImage;
}

/// Until the first child has ended; false when it had to be killed.
bool ended_within(int pidfd, std::chrono::milliseconds patience)
{
    const auto deadline = std::chrono::steady_clock::now() + patience;
    for (;;) {
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
        pollfd ended{.fd = pidfd, .events = POLLIN, .revents = 0};
        if (::poll(&ended, 1, static_cast<int>(std::max<std::int64_t>(left, 0))) > 0) return true;
        if (left > 0) continue;
        raw(SYS_pidfd_send_signal, pidfd, SIGKILL, 0, 0);
        return false;
    }
}

void reap(pid_t pid)
{
    int status = 0;
    while (::waitpid(pid, &status, __WALL) < 0 && errno == EINTR) {
    }
}

} // namespace

Result<Launched> launch(StepList& list, const LaunchOptions& options)
{
    // The stacks, and whether the memory map may be dumped, are the process's: one launch at a time.
    static std::mutex one_at_a_time;
    const std::scoped_lock alone(one_at_a_time);
    const auto blocks = list.blocks();
    BERTH_TRY(char* const top, stacks(blocks.size() > 1 ? kDepth : 1));

    // Keep the numbers the program will get free of descriptors the steps still need.
    std::vector<int> slots = list.slots();
    std::vector<UniqueFd> moved;
    for (int& fd : slots) {
        if (fd < 0 || fd >= options.low_numbers) continue;
        moved.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, options.low_numbers));
        if (!moved.back()) return fail_errno("moving descriptor {} out of the way", fd);
        fd = moved.back().get();
    }

    std::vector<std::vector<char*>> words;
    std::vector<char* const*> vectors;
    words.reserve(list.vectors().size());
    // execve does not write to its strings; its signature is older than const.
    auto* const arena = const_cast<char*>(list.arena().data());
    for (const auto& offsets : list.vectors()) {
        auto& out = words.emplace_back();
        for (const auto offset : offsets) out.push_back(arena + offset);
        out.push_back(nullptr);
        vectors.push_back(out.data());
    }

    const bool apart = options.apart.count() != 0;
    StepImage ours;
    StepImage* shared = &ours;
    if (apart) {
        BERTH_TRY(shared, shared_image());
    }
    const ScopeExit unmap([&] {
        if (apart) ::munmap(shared, sizeof(StepImage));
    });
    StepImage& image = *shared;
    image.steps = list.steps().data();
    image.blocks = blocks.data();
    image.arena = list.arena().data();
    image.slots = slots.data();
    image.vectors = vectors.data();
    image.stack_size = kStackSize;
    for (std::size_t i = 0; i < kDepth; ++i) image.stack_top[i] = top + i * (kStackSize + kGuard);

    int pidfd = -1;
    Start start{.image = &image, .apart = apart};
    CloneArgs args{};
    args.flags = options.namespaces | CLONE_PIDFD | kCloneClearSighand;
    if (!apart) args.flags |= CLONE_VM | CLONE_VFORK;
    args.pidfd = static_cast<std::uint64_t>(arg(&pidfd));
    args.exit_signal = SIGCHLD;
    args.stack = static_cast<std::uint64_t>(arg(image.stack_top[0] - kStackSize));
    args.stack_size = kStackSize;
    if (options.cgroup >= 0) {
        args.flags |= kCloneIntoCgroup;
        args.cgroup = static_cast<std::uint64_t>(options.cgroup);
    }

    // The kernel makes a memory map undumpable when a sharer changes its user id; remember ours.
    const int dumpable = ::prctl(PR_GET_DUMPABLE);
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    const long pid = berth_clone3(&args, sizeof args, first_child, &start);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (dumpable == 1) ::prctl(PR_SET_DUMPABLE, 1);

    if (pid < 0) return fail_with(static_cast<int>(pid), "clone3 with namespaces {:#x}", options.namespaces);
    Launched launched{.pid = static_cast<pid_t>(pid), .pidfd = UniqueFd(pidfd)};
    if (apart && !ended_within(launched.pidfd.get(), options.apart)) {
        reap(launched.pid);
        return fail(Code::Unavailable, "a process of the sandbox keeps the command from starting");
    }
    if (image.error != 0) {
        reap(launched.pid);
        const auto label = list.label_of(static_cast<std::size_t>(image.failed_step));
        return fail_with(image.error, "{}", label);
    }
    return launched;
}

} // namespace berth::sys

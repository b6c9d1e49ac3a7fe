#include "sys/launch.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

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

/// What the image of a list points to.
class Laid {
public:
    [[nodiscard]] static Result<Laid> out(const StepList& list, int low_numbers)
    {
        Laid laid;
        laid.blocks_ = list.blocks();
        // Keep the numbers the program will get free of descriptors the steps still need.
        laid.slots_ = list.slots();
        for (int& fd : laid.slots_) {
            if (fd < 0 || fd >= low_numbers) continue;
            laid.moved_.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, low_numbers));
            if (!laid.moved_.back()) return fail_errno("moving descriptor {} out of the way", fd);
            fd = laid.moved_.back().get();
        }
        laid.words_.reserve(list.vectors().size());
        // execve does not write to its strings; its signature is older than const.
        auto* const arena = const_cast<char*>(list.arena().data());
        for (const auto& offsets : list.vectors()) {
            auto& words = laid.words_.emplace_back();
            for (const auto offset : offsets) words.push_back(arena + offset);
            words.push_back(nullptr);
            laid.vectors_.push_back(words.data());
        }
        return laid;
    }

    void fill(StepImage& image, const StepList& list, char* top)
    {
        image.steps = list.steps().data();
        image.blocks = blocks_.data();
        image.arena = list.arena().data();
        image.slots = slots_.data();
        image.vectors = vectors_.data();
        image.stack_size = kStackSize;
        for (std::size_t i = 0; i < kDepth; ++i) image.stack_top[i] = top + i * (kStackSize + kGuard);
    }

    [[nodiscard]] std::size_t depth() const noexcept { return blocks_.size() > 1 ? kDepth : 1; }

private:
    std::vector<Block> blocks_;
    std::vector<int> slots_;
    std::vector<UniqueFd> moved_;
    std::vector<std::vector<char*>> words_;
    std::vector<char* const*> vectors_;
};

/// clone3 with everything blocked. Returns when the child has reached its exec where it shares our memory,
/// else at once.
Result<Launched> clone_first(StepImage& image, const LaunchOptions& options, bool apart)
{
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
    return Launched{.pid = static_cast<pid_t>(pid), .pidfd = UniqueFd(pidfd)};
}

Status failure_of(const StepImage& image, const StepList& list)
{
    if (image.error == 0) return {};
    return fail_with(image.error, "{}", list.label_of(static_cast<std::size_t>(image.failed_step)));
}

/// The stacks, and whether the memory map may be dumped, are the process's: one clone at a time.
std::mutex& one_at_a_time()
{
    static std::mutex mutex;
    return mutex;
}

} // namespace

Result<Launched> launch(StepList& list, const LaunchOptions& options)
{
    const std::scoped_lock alone(one_at_a_time());
    BERTH_TRY(auto laid, Laid::out(list, options.low_numbers));
    BERTH_TRY(char* const top, stacks(laid.depth()));
    StepImage image;
    laid.fill(image, list, top);
    BERTH_TRY(auto launched, clone_first(image, options, false));
    if (auto failed = failure_of(image, list); !failed) {
        int status = 0;
        while (::waitpid(launched.pid, &status, __WALL) < 0 && errno == EINTR) {
        }
        return std::unexpected(std::move(failed).error());
    }
    return launched;
}

Result<LaunchedApart> launch_apart(StepList& list, const LaunchOptions& options)
{
    LaunchedApart out;
    out.report.reset(static_cast<int>(::syscall(SYS_memfd_create, "report", 1u /* MFD_CLOEXEC */)));
    if (!out.report || ::ftruncate(out.report.get(), sizeof(StepImage)) != 0)
        return fail_errno("making a memory file");
    void* mapped =
        ::mmap(nullptr, sizeof(StepImage), PROT_READ | PROT_WRITE, MAP_SHARED, out.report.get(), 0);
    if (mapped == MAP_FAILED) return fail_errno("mapping the report of a launch");
    const ScopeExit unmap([&] { ::munmap(mapped, sizeof(StepImage)); });
    auto& image = *new (mapped) StepImage;

    BERTH_TRY(auto laid, Laid::out(list, options.low_numbers));
    const std::scoped_lock alone(one_at_a_time());
    BERTH_TRY(char* const top, stacks(laid.depth()));
    laid.fill(image, list, top);
    BERTH_TRY(out.child, clone_first(image, options, true));
    return out;
}

Status await_apart(const LaunchedApart& launched, const StepList& list, std::chrono::milliseconds patience)
{
    const int pidfd = launched.child.pidfd.get();
    const auto deadline = std::chrono::steady_clock::now() + patience;
    for (;;) {
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
        pollfd ended{.fd = pidfd, .events = POLLIN, .revents = 0};
        if (::poll(&ended, 1, static_cast<int>(std::max<std::int64_t>(left, 0))) > 0) break;
        if (left > 0) continue;
        raw(SYS_pidfd_send_signal, pidfd, SIGKILL, 0, 0);
        return fail(Code::Unavailable, "a process of the sandbox keeps the command from starting");
    }
    StepImage image;
    if (::pread(launched.report.get(), &image, sizeof image, 0) != static_cast<ssize_t>(sizeof image))
        return fail_errno("reading the report of a launch");
    return failure_of(image, list);
}

} // namespace berth::sys

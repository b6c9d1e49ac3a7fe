#include "sys/userns.hpp"

#include <fcntl.h>
#include <linux/securebits.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <csignal>
#include <utility>

#include "base/io.hpp"
#include "base/scope_exit.hpp"
#include "sys/raw_syscall.hpp"

namespace berth::sys {

namespace {

constexpr std::size_t kStackSize = 16384;

int hold(void* maker)
{
    // Whoever is killed while it makes a namespace leaves nobody behind.
    raw(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
    if (raw(SYS_getppid) != *static_cast<const pid_t*>(maker)) return 0;
    for (;;) raw(SYS_pause);
}

/// This thread with another effective user and all its capabilities, for the moment of a clone: the kernel
/// takes the effective user for the owner of a namespace. The raw calls change one thread, not the process.
class OtherUser {
public:
    explicit OtherUser(std::optional<uid_t> user) : active_(user.has_value())
    {
        if (!active_) return;
        dumpable_ = raw(SYS_prctl, PR_GET_DUMPABLE);
        bits_ = raw(SYS_prctl, PR_GET_SECUREBITS);
        ok_ = raw(SYS_prctl, PR_SET_SECUREBITS, bits_ | SECBIT_NO_SETUID_FIXUP) == 0 &&
              raw(SYS_setresuid, -1, *user, -1) == 0;
    }
    [[nodiscard]] bool ok() const noexcept { return ok_; }
    void leave() const noexcept
    {
        if (!active_) return;
        raw(SYS_setresuid, -1, 0, -1);
        raw(SYS_prctl, PR_SET_SECUREBITS, bits_);
        raw(SYS_prctl, PR_SET_DUMPABLE, dumpable_); // a change of user takes it from the whole process
    }

private:
    bool active_;
    bool ok_ = true;
    long dumpable_ = 1;
    long bits_ = 0;
};

std::string map_text(const std::vector<IdMapping>& map)
{
    std::string text;
    for (const auto& m : map) text += fmt::format("{} {} {}\n", m.inside, m.outside, m.count);
    return text;
}

} // namespace

UserNamespace::UserNamespace(UserNamespace&& other) noexcept
    : fd_(std::move(other.fd_)), holder_(std::exchange(other.holder_, -1)),
      stack_(std::exchange(other.stack_, nullptr))
{
}

UserNamespace& UserNamespace::operator=(UserNamespace&& other) noexcept
{
    if (this == &other) return *this;
    settle();
    fd_ = std::move(other.fd_);
    holder_ = std::exchange(other.holder_, -1);
    stack_ = std::exchange(other.stack_, nullptr);
    return *this;
}

void UserNamespace::settle() noexcept
{
    if (holder_ > 0) {
        while (::waitpid(holder_, nullptr, __WALL) < 0 && errno == EINTR) {
        }
        holder_ = -1;
    }
    if (stack_ != nullptr) ::munmap(stack_, kStackSize);
    stack_ = nullptr;
}

Result<UserNamespace> UserNamespace::make(const std::vector<IdMapping>& uids,
                                          const std::vector<IdMapping>& gids, std::optional<uid_t> owner)
{
    UserNamespace made;
    // The holder only pauses; it shares our memory and descriptors so that none are copied for it.
    void* stack = ::mmap(nullptr, kStackSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED) return fail_errno("mapping a stack");
    made.stack_ = stack;

    CloneArgs args{};
    args.flags = CLONE_VM | CLONE_FILES | CLONE_NEWUSER;
    args.exit_signal = 0; // nobody is told: it is waited for in settle(), by __WALL
    args.stack = static_cast<std::uint64_t>(arg(stack));
    args.stack_size = kStackSize;
    auto* const maker = static_cast<pid_t*>(stack); // at its far end, out of the way
    *maker = ::getpid();
    sigset_t all;
    sigset_t before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    const OtherUser other(owner);
    const long pid = other.ok() ? berth_clone3(&args, sizeof args, hold, maker) : -EPERM;
    other.leave();
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (pid < 0) return fail_with(static_cast<int>(pid), "making a user namespace");
    made.holder_ = static_cast<pid_t>(pid);
    const ScopeExit end([&] { ::kill(static_cast<pid_t>(pid), SIGKILL); });

    const std::string dir = fmt::format("/proc/{}", pid);
    if (!uids.empty()) BERTH_CHECK(write_control(dir + "/uid_map", map_text(uids)));
    if (!gids.empty()) BERTH_CHECK(write_control(dir + "/gid_map", map_text(gids)));
    made.fd_ = UniqueFd(::open((dir + "/ns/user").c_str(), O_RDONLY | O_CLOEXEC));
    if (!made.fd_) return fail_errno("opening {}/ns/user", dir);
    return made;
}

} // namespace berth::sys

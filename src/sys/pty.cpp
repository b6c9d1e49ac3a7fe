#include "sys/pty.hpp"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <atomic>

#include "base/scope_exit.hpp"

namespace berth::sys {
namespace {

constexpr std::array kFatal{SIGHUP, SIGINT,  SIGQUIT, SIGILL,  SIGABRT, SIGBUS,
                            SIGFPE, SIGSEGV, SIGPIPE, SIGALRM, SIGTERM, SIGSYS};

/// What a signal handler needs; it may reach nothing but statics.
std::atomic<bool> claimed{false};
std::atomic<bool> armed{false};
int saved_terminal = -1;
termios saved_mode{};
std::array<struct sigaction, kFatal.size()> saved_actions{};
std::array<bool, kFatal.size()> replaced{};
static_assert(std::atomic<bool>::is_always_lock_free);

void restore_and_die(int signo)
{
    if (armed.exchange(false)) ::tcsetattr(saved_terminal, TCSANOW, &saved_mode);
    // SA_RESETHAND has put the default action back and SA_NODEFER left the signal open: this ends
    // us, with the truth about why in our wait status.
    ::raise(signo);
}

void install_handlers() noexcept
{
    struct sigaction ours{};
    ours.sa_handler = restore_and_die;
    ours.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
    ::sigemptyset(&ours.sa_mask);
    // tcsetattr from a background process group raises SIGTTOU, which would stop us half way.
    ::sigaddset(&ours.sa_mask, SIGTTOU);
    for (std::size_t i = 0; i < kFatal.size(); ++i) {
        ::sigaction(kFatal[i], nullptr, &saved_actions[i]);
        const bool is_default =
            (saved_actions[i].sa_flags & SA_SIGINFO) == 0 && saved_actions[i].sa_handler == SIG_DFL;
        replaced[i] = is_default && ::sigaction(kFatal[i], &ours, nullptr) == 0;
    }
}

void remove_handlers() noexcept
{
    for (std::size_t i = 0; i < kFatal.size(); ++i)
        if (replaced[i]) ::sigaction(kFatal[i], &saved_actions[i], nullptr);
}

} // namespace

Result<WindowSize> window_size(int terminal)
{
    winsize size{};
    if (::ioctl(terminal, TIOCGWINSZ, &size) != 0)
        return fail_errno("asking for the window size of descriptor {}", terminal);
    return WindowSize{.rows = size.ws_row, .columns = size.ws_col};
}

Status set_window_size(int terminal, WindowSize size)
{
    const winsize wanted{.ws_row = size.rows, .ws_col = size.columns, .ws_xpixel = 0, .ws_ypixel = 0};
    if (::ioctl(terminal, TIOCSWINSZ, &wanted) != 0)
        return fail_errno("setting the window size of descriptor {}", terminal);
    return {};
}

Result<Pty> open_pty(WindowSize size)
{
    Pty pty;
    pty.master = UniqueFd(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
    if (!pty.master) return fail_errno("opening /dev/ptmx");
    if (::unlockpt(pty.master.get()) != 0) return fail_errno("unlocking a new terminal");
    // By descriptor: the name in /dev/pts may be another terminal in this mount namespace.
    pty.slave = UniqueFd(::ioctl(pty.master.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
    if (!pty.slave) return fail_errno("opening the other end of a new terminal");
    BERTH_CHECK(set_window_size(pty.master.get(), size));
    return pty;
}

Result<RawTerminal> RawTerminal::enter(int terminal)
{
    if (claimed.exchange(true)) return fail(Code::Conflict, "the terminal is already in raw mode");
    ScopeExit release([] { claimed = false; });
    if (::tcgetattr(terminal, &saved_mode) != 0)
        return fail_errno("reading the mode of the terminal on descriptor {}", terminal);
    saved_terminal = terminal;
    install_handlers();
    armed = true;
    termios raw = saved_mode;
    ::cfmakeraw(&raw);
    if (::tcsetattr(terminal, TCSADRAIN, &raw) != 0) {
        const int err = errno;
        armed = false;
        remove_handlers();
        return fail_with(err, "putting the terminal on descriptor {} into raw mode", terminal);
    }
    release.dismiss();
    return RawTerminal();
}

RawTerminal::RawTerminal(RawTerminal&& other) noexcept : active_(std::exchange(other.active_, false)) {}

RawTerminal::~RawTerminal()
{
    if (!active_) return;
    sigset_t stop, before;
    ::sigemptyset(&stop);
    ::sigaddset(&stop, SIGTTOU);
    ::pthread_sigmask(SIG_BLOCK, &stop, &before);
    ::tcsetattr(saved_terminal, TCSANOW, &saved_mode);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    armed = false;
    remove_handlers();
    claimed = false;
}

} // namespace berth::sys

#include "backend/local/one_shot.hpp"

#include <fcntl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "backend/local/environment.hpp"
#include "backend/local/holdings.hpp"
#include "backend/local/launcher.hpp"
#include "backend/local/limits.hpp"
#include "backend/local/prepare.hpp"
#include "backend/local/relay.hpp"
#include "backend/local/shared.hpp"
#include "backend/local/template_use.hpp"
#include "base/hooks.hpp"
#include "base/scope_exit.hpp"
#include "base/strings.hpp"
#include "core/struck.hpp"
#include "keeper/wire.hpp"
#include "keeping/keeper_image.hpp"
#include "keeping/pipe.hpp"
#include "sys/child.hpp"
#include "sys/socket.hpp"

namespace berth::local {

namespace {

/// The signals that reach `berth run` are the command's: blocked as long as this lives, and read from a
/// descriptor. One that comes after the command has ended is ours again.
class ForwardedSignals {
public:
    explicit ForwardedSignals(bool terminal)
    {
        ::sigemptyset(&set_);
        for (const int signo : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2})
            ::sigaddset(&set_, signo);
        if (terminal) ::sigaddset(&set_, SIGWINCH);
        ::pthread_sigmask(SIG_BLOCK, &set_, &before_);
    }
    ForwardedSignals(ForwardedSignals&&) = delete;
    ~ForwardedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

    [[nodiscard]] Result<UniqueFd> descriptor() const
    {
        UniqueFd fd(::signalfd(-1, &set_, SFD_CLOEXEC | SFD_NONBLOCK));
        if (!fd) return fail_errno("making a signal descriptor");
        return fd;
    }

private:
    sigset_t set_{};
    sigset_t before_{};
};

struct Ends {
    RelayEnds ours;
    UniqueFd in, out, err, socket; ///< the sandbox's alone
};

Result<Ends> make_ends(const ExecSpec& exec)
{
    Ends ends;
    BERTH_TRY(auto report, sys::socket_pair(sys::SocketKind::SeqPacket));
    ends.ours.report = std::move(report.first);
    ends.socket = std::move(report.second);
    const auto null = [] { return UniqueFd(::open("/dev/null", O_RDWR | O_CLOEXEC)); };
    if (exec.terminal) {
        ends.in = null();
        ends.out = null();
        ends.err = null();
    } else {
        BERTH_TRY(auto out, make_pipe());
        BERTH_TRY(auto err, make_pipe());
        for (const int fd : {out.read.get(), err.read.get()}) ::fcntl(fd, F_SETFL, O_NONBLOCK);
        ends.ours.out = std::move(out.read);
        ends.ours.err = std::move(err.read);
        ends.ours.out_held = std::move(out.write);
        ends.ours.err_held = std::move(err.write);
        if (exec.input == ExecSpec::Stdin::Open) {
            BERTH_TRY(auto in, make_pipe());
            ends.ours.in = std::move(in.write);
            ends.in = std::move(in.read);
        } else {
            ends.in = null();
        }
    }
    if (!ends.in || (exec.terminal && (!ends.out || !ends.err))) return fail_errno("opening /dev/null");
    return ends;
}

std::vector<std::string> init_arguments(const ExecSpec& exec, const Account& user, const std::string& cwd)
{
    std::uint64_t flags = keeper::kOneShotNewSession;
    TerminalSize size;
    if (exec.terminal) {
        flags |= keeper::kOneShotTerminal;
        size = *exec.terminal;
    }
    std::vector<std::string> argv{"o", std::to_string(keeper::one_shot_word(flags, size.rows, size.columns)),
                                  std::to_string(user.uid), std::to_string(user.gid), cwd};
    argv.insert(argv.end(), exec.argv.begin(), exec.argv.end());
    return argv;
}

/// Turns "No such file or directory" into what the person typed wrong.
Error explain_start(Error error, const ExecSpec& exec, const Account& user, const std::string& cwd)
{
    const bool command = !error.trail.empty() && error.trail.front() == "starting the command";
    const bool directory = !error.trail.empty() && error.trail.front() == "entering the working directory";
    if (command && error.sys.value() == ENOENT)
        error.message = fmt::format("command not found in the sandbox: {}", printable(exec.argv.front()));
    else if (command)
        error.message = fmt::format("cannot execute {}: {}", printable(exec.argv.front()), error.message);
    else if (directory)
        error.message =
            fmt::format("working directory {} of user {}: {}", printable(cwd), user.name, error.message);
    error.trail.clear();
    return error;
}

} // namespace

Result<RunOutcome> run_one_shot(const StateDir& state, const SandboxSpec& sandbox, const ExecSpec& exec,
                                const RunStreams& streams, const Pools::Progress& progress, Pools* pools)
{
    BERTH_CHECK(validate(exec));
    SandboxSpec spec = sandbox;
    if (!exec.user.empty()) spec.user = exec.user;
    auto limits = LimitGroups::open(spec, state, pools);
    BERTH_TRY(const auto prepared, prepare(state, spec, limits.availability(), pools, progress));
    BERTH_CHECK(prepared->for_one_command());
    Plan& plan = prepared->plan;
    const Account& user = prepared->user;
    BERTH_TRY(const auto held, hold_templates(state, plan.layers));
    BERTH_CHECK(limits.make(spec));
    plan.v1_tasks = limits.v1_tasks();
    hooks::kill_point("limits made");

    const std::string cwd = working_directory(spec, exec, user, plan.layers);
    const ForwardedSignals signals(exec.terminal.has_value());
    BERTH_TRY(auto ends, make_ends(exec));
    BERTH_TRY(ends.ours.signals, signals.descriptor());
    BERTH_TRY(const int image, keeper_image());
    Entry entry;
    entry.program = image;
    entry.argv = init_arguments(exec, user, cwd);
    entry.env = environment(spec, exec, user, plan.layers);
    entry.in = ends.in.get();
    entry.out = ends.out ? ends.out.get() : ends.ours.out_held.get();
    entry.err = ends.err ? ends.err.get() : ends.ours.err_held.get();
    entry.socket = ends.socket.get();
    entry.cgroup = limits.v2_directory();

    BERTH_TRY(auto launched, launch(plan, entry));
    sys::Child init =
        sys::Child::own(launched.pid, UniqueFd(::fcntl(launched.pidfd.get(), F_DUPFD_CLOEXEC, 3)));
    prepared->identity.user_namespace.settle();
    plan.beside.settle();
    if (prepared->supervision) prepared->supervision->let_go();
    hooks::kill_point("sandbox started");
    ends.in.reset();
    ends.out.reset();
    ends.err.reset();
    ends.socket.reset();

    RelayOptions options;
    options.terminal = exec.terminal.has_value();
    options.timeout = exec.timeout;
    const auto& wall = spec.policy.limits.wall_time;
    const bool wall_first = wall && (!exec.timeout || *wall < *exec.timeout);
    if (wall_first) options.timeout = wall;
    options.limit = exec.log_limit;
    BERTH_TRY(auto seen, relay(launched, std::move(ends.ours), streams, options));
    hooks::kill_point("command ended");
    BERTH_TRY(const auto init_status, init.wait());

    RunOutcome outcome;
    outcome.notes = prepared->notes;
    outcome.dropped = seen.dropped;
    outcome.unwritten = seen.unwritten;
    outcome.struck = limits.struck();
    outcome.by_wall_time = seen.timed_out && wall_first;
    if (outcome.by_wall_time) outcome.struck.push_back(struck::by_wall_time(*wall));
    // A live view shows the host's own disk, which is no limit of ours.
    if (seen.disk_full && plan.layers.kind != Template::Kind::Live)
        outcome.struck.push_back(struck::by_disk(plan.disk));
    hooks::kill_point("before removing limits");
    limits.remove();
    if (seen.not_started)
        return std::unexpected(explain_start(*std::move(seen.not_started), exec, user, cwd));
    outcome.timed_out = seen.timed_out;
    // Init killed without a word took the command with it; the kernel said how init died. What init
    // exited with is its own affair and says nothing about the command.
    outcome.status = seen.status.value_or(init_status.signal() ? init_status : ExitStatus::unknown());
    return outcome;
}

} // namespace berth::local

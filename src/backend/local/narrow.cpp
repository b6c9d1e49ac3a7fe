// A command with a policy narrower than its sandbox's. It is started from outside, before any
// filter of the sandbox applies to it: a child enters the sandbox's namespaces, a process P in it
// makes a further mount namespace, puts the narrower walls up and clones the command, which names
// itself to the keeper and is adopted when P ends. So its log and its exit are as safe as those of
// every other exec. Landlock is no second wall here but the only one against looking into a
// sibling's root through /proc; without it the request is refused.

#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "backend/local/environment.hpp"
#include "backend/local/launcher.hpp"
#include "backend/local/pipe.hpp"
#include "backend/local/sandbox.hpp"
#include "base/hooks.hpp"
#include "base/strings.hpp"
#include "sys/caps.hpp"
#include "sys/child.hpp"
#include "sys/landlock.hpp"
#include "sys/launch.hpp"
#include "sys/socket.hpp"

namespace berth::local {

namespace {

using namespace std::chrono_literals;

/// The command's streams: its ends, and those that go to the keeper.
struct Streams {
    UniqueFd in, out, err;
    std::vector<UniqueFd> keeper;
};

/// A terminal of the sandbox's own devpts, opened from outside.
Status open_terminal(int root, TerminalSize size, Streams& streams)
{
    open_how how{};
    how.flags = O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK;
    how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS;
    UniqueFd master(static_cast<int>(::syscall(SYS_openat2, root, "dev/pts/ptmx", &how, sizeof how)));
    if (!master) return fail_errno("opening a terminal of the sandbox");
    int unlock = 0;
    if (::ioctl(master.get(), TIOCSPTLCK, &unlock) != 0)
        return fail_errno("unlocking a terminal of the sandbox");
    UniqueFd slave(::ioctl(master.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
    if (!slave) return fail_errno("opening the other end of a terminal of the sandbox");
    const winsize window{.ws_row = size.rows, .ws_col = size.columns, .ws_xpixel = 0, .ws_ypixel = 0};
    ::ioctl(master.get(), TIOCSWINSZ, &window);
    streams.in.reset(::fcntl(slave.get(), F_DUPFD_CLOEXEC, 3));
    streams.out.reset(::fcntl(slave.get(), F_DUPFD_CLOEXEC, 3));
    streams.err = std::move(slave);
    streams.keeper.push_back(std::move(master));
    return {};
}

Result<Streams> make_streams(const ExecSpec& spec, int root)
{
    Streams streams;
    if (spec.terminal) {
        BERTH_CHECK(open_terminal(root, *spec.terminal, streams));
        return streams;
    }
    BERTH_TRY(auto out, make_pipe());
    BERTH_TRY(auto err, make_pipe());
    streams.out = std::move(out.write);
    streams.err = std::move(err.write);
    streams.keeper.push_back(std::move(out.read));
    streams.keeper.push_back(std::move(err.read));
    if (spec.input == ExecSpec::Stdin::Open) {
        BERTH_TRY(auto in, make_pipe());
        streams.in = std::move(in.read);
        streams.keeper.push_back(std::move(in.write));
    } else {
        streams.in.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
        if (!streams.in) return fail_errno("opening /dev/null");
    }
    return streams;
}

std::string adopt_message(std::uint64_t exec, std::uint64_t number, const ExecSpec& spec, std::size_t held)
{
    keeper::AdoptRequest request{};
    request.header.type = static_cast<std::uint32_t>(keeper::Type::Adopt);
    request.header.length = sizeof request;
    request.header.request = number;
    request.exec = exec;
    request.log_limit = spec.log_limit.count;
    request.flags = keeper::kPace | keeper::kNotify;
    request.held = static_cast<std::uint32_t>(held);
    if (spec.terminal)
        request.flags |= keeper::kTerminal;
    else if (spec.input == ExecSpec::Stdin::Open)
        request.flags |= keeper::kStdin;
    std::string bytes(sizeof request, '\0');
    std::memcpy(bytes.data(), &request, sizeof request);
    return bytes;
}

/// Groups have the limits of the whole sandbox. What one command alone can be held to, or what holds around
/// it anyway, is taken; the rest is refused by name.
Status narrow_limits(policy::Policy& inner, const policy::Limits& outer, const Account& user)
{
    policy::Limits& limits = inner.limits;
    const auto refuse = [](std::string_view what, std::string_view remedy) {
        return fail(Code::Unsupported,
                    "the policy of one command cannot limit its {}: it is held for the whole sandbox only{}",
                    what, remedy);
    };
    if (limits.memory && limits.memory != outer.memory) return refuse("memory", "");
    if (limits.cpus && limits.cpus != outer.cpus) return refuse("processors", "");
    if (limits.disk && limits.disk != outer.disk) return refuse("disk", "");
    if (limits.wall_time && limits.wall_time != outer.wall_time)
        return refuse("wall time", "; a timeout of the command may do (--timeout)");
    // The kernel counts a user's processes: whoever can become another is counted anew.
    const bool one_user = user.uid != 0 && inner.privileges == policy::Privileges::None;
    if (limits.pids && limits.pids != outer.pids && !one_user)
        return refuse("processes", ", or for a user without privileges");
    if (!limits.open_files) limits.open_files = outer.open_files;
    return {};
}

} // namespace

Status Sandbox::exec_narrower(const ExecSpec& spec, const Account& user, Starting& starting)
{
    if (prepared_->plan.landlock_abi == 0)
        return fail(Code::Unsupported,
                    "a narrower policy for one command needs landlock, which this kernel lacks");
    const Identity& identity = prepared_->identity;
    if (opened_) {
        // What is mounted must be looked at again; if it is not there any more, no rule about it can hold.
        BERTH_TRY(prepared_->binds, open_sources(prepared_->spec, *prepared_->plan.state));
        prepared_->plan.binds = prepared_->binds;
        opened_ = false;
    }
    SandboxSpec inner_spec = prepared_->spec;
    inner_spec.policy = *spec.policy;
    BERTH_CHECK(narrow_limits(inner_spec.policy, prepared_->spec.policy.limits, user));
    Plan inner;
    inner.spec = &inner_spec;
    inner.state = prepared_->plan.state;
    inner.identity = &identity;
    inner.layers = prepared_->plan.layers;
    inner.binds = prepared_->binds;
    inner.landlock_abi = prepared_->plan.landlock_abi;
    inner.net = prepared_->plan.net;
    BERTH_TRY(inner.files, policy::bind_files(inner_spec.policy, roots_of(inner_spec, user)));
    BERTH_TRY(auto protects, ProtectedNames::hold(inner));
    inner.protected_paths = protects.paths();
    const auto locks = protects.locks();
    if (locks.size() > keeper::kMaxHeld)
        return fail(Code::Exhausted, "a command may protect at most {} names that do not exist yet, not {}",
                    keeper::kMaxHeld, locks.size());
    const bool own_network =
        prepared_->plan.net == NetMode::Host && inner_spec.policy.network == policy::Network::Off;

    BERTH_TRY(const auto number, keeper_id(spec.id));
    UniqueFd root;
    if (spec.terminal) {
        BERTH_TRY(root, open_of_keeper("root", O_PATH | O_DIRECTORY));
    }
    BERTH_TRY(const auto streams, make_streams(spec, root.get()));
    // A conversation of its own: the command itself speaks first on it, and then the keeper to us.
    BERTH_TRY(auto keeper, KeeperClient::connect(directory_.get(), "sock", 10s));
    UniqueFd users;
    if (identity.mode == IdMode::Mapped) {
        BERTH_TRY(users, open_of_keeper("ns/user", O_RDONLY));
    }
    const auto env = environment(inner_spec, spec, user, inner.layers);
    const std::string cwd = working_directory(inner_spec, spec, user, inner.layers);

    sys::StepList list;
    const UniqueFd self(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
    const auto parent = list.borrow(self.get());
    // Block 0, outside: into the sandbox.
    stage(list, parent, "entering the control groups");
    if (starting.group)
        for (const int tasks : group_->birth_tasks(*starting.group)) list.write_fd(list.borrow(tasks), "0");
    stage(list, parent, "entering the sandbox");
    std::uint64_t namespaces = CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;
    // The host's own network is where we are already, and nothing an ordinary user may enter.
    if (prepared_->plan.net != NetMode::Host) namespaces |= CLONE_NEWNET;
    if (identity.mode == IdMode::Own) namespaces |= CLONE_NEWUSER;
    list.set_namespace(list.borrow(pidfd_.get()), namespaces);
    list.clone(CLONE_NEWNS | (own_network ? CLONE_NEWNET : 0), 1, SIGCHLD);
    list.wait_child();

    // Block 1, P: the narrower walls.
    list.begin_block();
    list.make_private();
    BERTH_CHECK(add_file_rules(list, inner, parent));
    if (own_network) list.loopback_up();
    stage(list, parent, "putting up the narrower walls");
    add_limits(list, inner);
    if (identity.mode == IdMode::Mapped) list.set_namespace(list.borrow(users.get()), CLONE_NEWUSER);
    if (identity.mode != IdMode::Own) list.ids(0, 0, true);
    const std::uint64_t kept = identity.mode == IdMode::Own ? 0 : sys::kKeptCaps;
    list.drop_caps(kept, kept);
    if (identity.mode != IdMode::Own && user.uid != 0) list.ids(user.uid, user.gid, false);
    list.no_new_privs();
    add_landlock(list, inner, true);
    stage(list, parent, "starting the command");
    list.clone(0, 2, SIGCHLD);

    // Block 2, the command: names itself to the keeper, whose child it is once P has ended.
    list.begin_block();
    std::vector<sys::Slot> passed{list.borrow(starting.log->index()), list.borrow(starting.log->out())};
    if (!spec.terminal) passed.push_back(list.borrow(starting.log->err()));
    for (const auto& end : streams.keeper) passed.push_back(list.borrow(end.get()));
    // The keeper holds the placeholders of protected names as long as the command lives: we may not.
    for (const int lock : locks) passed.push_back(list.borrow(lock));
    list.send(list.borrow(keeper.socket()), adopt_message(number, keeper.next_request(), spec, locks.size()),
              offsetof(keeper::AdoptRequest, pid), passed);
    list.new_session();
    const auto in = list.borrow(streams.in.get());
    if (spec.terminal) list.control_terminal(in);
    list.dup(in, 0);
    list.dup(list.borrow(streams.out.get()), 1);
    list.dup(list.borrow(streams.err.get()), 2);
    list.close_on_exec_from(3);
    list.say(fmt::format("working directory {}", printable(cwd)));
    list.chdir(cwd);
    list.clear_signals();
    add_open_files(list, inner);
    // The filter comes last: it takes clone3, by which P has made this process.
    list.say("installing the filter");
    add_filter(list, inner);
    list.say(fmt::format("command {}", printable(spec.argv.front())));
    list.exec_path(candidates(spec.argv.front(), env), spec.argv, env);

    // Its children live among hostile processes with the same user, who can stop, kill and trace them.
    const sys::LaunchOptions options{.cgroup = starting.group ? starting.group->birth_directory() : -1,
                                     .apart = 10s};
    BERTH_TRY(auto launched, sys::launch(list, options));
    auto entered = sys::Child::own(launched.pid, std::move(launched.pidfd));
    BERTH_TRY([[maybe_unused]] const auto status, entered.wait());
    BERTH_CHECK(keeper.await_adoption(number));
    adopted_.emplace(spec.id, Adopted{.keeper = std::move(keeper), .protects = std::move(protects)});
    return {};
}

} // namespace berth::local

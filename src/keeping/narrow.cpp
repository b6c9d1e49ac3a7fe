// A command with a policy narrower than its sandbox's. It is started from outside, before any
// filter of the sandbox applies to it: a child enters the sandbox's namespaces, a process P in it
// makes a further mount namespace, puts the narrower walls up and clones the command, which names
// itself to the keeper and is adopted when P ends. So its log and its exit are as safe as those of
// every other exec. Landlock is no second wall here but the only one against looking into a
// sibling's root through /proc; without it the request is refused. Deny patterns are held by a supervisor of
// the command's own, which P clones before it: the keeper's child like the command, in the same groups, and
// gone when nobody is left under the filter.
#include "keeping/narrow.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "base/strings.hpp"
#include "core/exec_programs.hpp"
#include "keeping/exec_start.hpp"
#include "keeping/file_rules.hpp"
#include "keeping/pipe.hpp"
#include "keeping/protected_search.hpp"
#include "keeping/walls.hpp"
#include "sys/launch.hpp"

namespace berth::keeping {

namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 10s;
constexpr std::uint32_t kWalls = 1, kCommand = 2, kSupervisor = 3; ///< blocks

std::string command_label(const ExecSpec& spec)
{
    return fmt::format("command {}", printable(spec.argv.front()));
}

/// The command's streams: its ends, and those that go to the keeper.
struct Streams {
    UniqueFd in, out, err;
    std::vector<UniqueFd> keeper;
};

/// A terminal of the sandbox's own devpts, opened from outside.
Status open_terminal(const NarrowStart& start, TerminalSize size, Streams& streams)
{
    open_how how{};
    how.flags = O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK;
    how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS;
    UniqueFd master(static_cast<int>(::syscall(SYS_openat2, start.root, "dev/pts/ptmx", &how, sizeof how)));
    if (!master) return fail_errno("opening a terminal of the sandbox");
    int unlock = 0;
    if (::ioctl(master.get(), TIOCSPTLCK, &unlock) != 0)
        return fail_errno("unlocking a terminal of the sandbox");
    UniqueFd slave(::ioctl(master.get(), TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC));
    if (!slave) return fail_errno("opening the other end of a terminal of the sandbox");
    // By its path, too, it is the command's.
    if (start.terminal_owner && ::fchown(slave.get(), *start.terminal_owner, static_cast<gid_t>(-1)) != 0)
        return fail_errno("giving a terminal to the command's user");
    const winsize window{.ws_row = size.rows, .ws_col = size.columns, .ws_xpixel = 0, .ws_ypixel = 0};
    ::ioctl(master.get(), TIOCSWINSZ, &window);
    streams.in.reset(::fcntl(slave.get(), F_DUPFD_CLOEXEC, 3));
    streams.out.reset(::fcntl(slave.get(), F_DUPFD_CLOEXEC, 3));
    streams.err = std::move(slave);
    streams.keeper.push_back(std::move(master));
    return {};
}

Result<Streams> make_streams(const NarrowStart& start)
{
    const ExecSpec& spec = *start.exec;
    Streams streams;
    if (spec.terminal) {
        BERTH_CHECK(open_terminal(start, *spec.terminal, streams));
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

/// Block 0, outside: into the sandbox.
void add_entry(sys::StepList& list, const NarrowStart& start, sys::Slot parent)
{
    stage(list, parent, "entering the control groups");
    for (const int tasks : start.tasks) list.write_fd(list.borrow(tasks), "0");
    stage(list, parent, "entering the sandbox");
    list.set_namespace(list.borrow(start.keeper_pidfd), start.namespaces);
    list.clone(CLONE_NEWNS | (start.own_network ? CLONE_NEWNET : 0), kWalls, SIGCHLD);
    list.wait_child();
}

/// Block 1, P: the narrower walls.
Status add_walls(sys::StepList& list, const NarrowStart& start, sys::Slot parent)
{
    RuleSite site = start.site;
    if (start.root >= 0) {
        BERTH_TRY(auto found, find_protected_in_root(start.root, site));
        for (auto& path : found)
            if (std::ranges::find(site.protected_paths, path) == site.protected_paths.end())
                site.protected_paths.push_back(std::move(path));
    }
    list.begin_block();
    list.make_private();
    BERTH_CHECK(add_file_rules(list, site, parent));
    if (start.own_network) list.loopback_up();
    stage(list, parent, "putting up the narrower walls");
    add_limits(list, start.limits);
    if (start.users >= 0) list.set_namespace(list.borrow(start.users), CLONE_NEWUSER);
    if (start.changes_ids) list.ids(0, 0, true);
    const auto forbid = [&] {
        list.no_new_privs();
        add_landlock(list, start.site.files, start.landlock_abi, Domain::Always);
    };
    if (start.supervision != nullptr) {
        // In the same landlock domain: what the command may not look into, it cannot make its supervisor.
        forbid();
        stage(list, parent, "starting the supervisor of deny patterns");
        start.supervision->add_process(list, kSupervisor);
    }
    list.drop_caps(start.caps, start.caps);
    if (start.changes_ids && start.user.uid != 0) list.ids(start.user.uid, start.user.gid, false);
    if (start.supervision == nullptr) forbid();
    stage(list, parent, "starting the command");
    list.clone(0, kCommand, SIGCHLD);
    return {};
}

/// Block 2, the command: names itself to the keeper, whose child it is once P has ended.
void add_command(sys::StepList& list, const NarrowStart& start, const Streams& streams, int keeper,
                 const std::string& adoption)
{
    const ExecSpec& spec = *start.exec;
    list.begin_block();
    std::vector<sys::Slot> passed{list.borrow(start.log->index()), list.borrow(start.log->out())};
    if (!spec.terminal) passed.push_back(list.borrow(start.log->err()));
    for (const auto& end : streams.keeper) passed.push_back(list.borrow(end.get()));
    // The keeper holds the placeholders of protected names as long as the command lives: we may not.
    for (const int lock : start.locks) passed.push_back(list.borrow(lock));
    list.send(list.borrow(keeper), adoption, offsetof(keeper::AdoptRequest, pid), passed);
    list.new_session();
    const auto in = list.borrow(streams.in.get());
    if (spec.terminal) list.control_terminal(in);
    list.dup(in, 0);
    list.dup(list.borrow(streams.out.get()), 1);
    list.dup(list.borrow(streams.err.get()), 2);
    list.close_on_exec_from(3);
    list.say(fmt::format("working directory {}", printable(start.cwd)));
    list.chdir(start.cwd);
    list.clear_signals();
    if (!start.label.empty()) {
        list.say("taking on the security module's label of the sandbox");
        list.write_file("/proc/self/attr/exec", start.label);
    }
    add_open_files(list, start.limits);
    // The filter comes last: it takes clone3, by which P has made this process.
    list.say("installing the filter");
    if (start.supervision != nullptr)
        start.supervision->add_filter(list, start.filter);
    else
        add_filter(list, start.filter);
    list.say(command_label(spec));
    const auto argv = argv_of(spec.id, spec.argv);
    if (start.supervision != nullptr)
        return start.supervision->add_command(list, start.programs, argv, start.env);
    if (const int program = program_of(spec.id); program >= 0)
        list.exec(list.borrow(program), argv, start.env);
    else
        list.exec_path(start.programs, argv, start.env);
}

} // namespace

policy::Policy without_usual_limits(policy::Policy inner, const policy::Limits& outer)
{
    const auto usual = policy::preset("sandbox");
    if (!usual) return inner;
    const auto lower = [](auto& limit, const auto& by_preset, const auto& around) {
        if (limit && limit == by_preset && around && *around < *limit) limit = around;
    };
    lower(inner.limits.pids, usual->limits.pids, outer.pids);
    lower(inner.limits.open_files, usual->limits.open_files, outer.open_files);
    return inner;
}

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
    // It is started from outside, so nothing of the sandbox's comes with it by itself.
    if (!limits.open_files) limits.open_files = outer.open_files;
    if (!limits.pids) limits.pids = outer.pids;
    return {};
}

Status start_narrow(const NarrowStart& start, KeeperClient& keeper)
{
    if (start.landlock_abi == 0)
        return fail(Code::Unsupported,
                    "a narrower policy for one command needs landlock, which this kernel lacks");
    const ExecSpec& spec = *start.exec;
    if (start.locks.size() > keeper::kMaxHeld)
        return fail(Code::Exhausted, "a command may protect at most {} names that do not exist yet, not {}",
                    keeper::kMaxHeld, start.locks.size());
    BERTH_TRY(const auto number, keeper_id(spec.id));
    BERTH_TRY(const auto streams, make_streams(start));
    sys::StepList list;
    const UniqueFd self(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
    const auto parent = list.borrow(self.get());
    add_entry(list, start, parent);
    BERTH_CHECK(add_walls(list, start, parent));
    if (start.time != nullptr) start.time->tell(keeper, number);
    // Then the command itself speaks in the conversation, and then the keeper to us.
    add_command(list, start, streams, keeper.socket(),
                adopt_message(number, keeper.next_request(), spec, start.locks.size()));
    if (start.supervision != nullptr) start.supervision->add_block(list, start.caps, !start.changes_ids);
    // Its children live among hostile processes with the same user, who can stop, kill and trace them.
    const sys::LaunchOptions options{.cgroup = start.birth_directory};
    BERTH_TRY(const auto launched, start.spawner != nullptr ? start.spawner->launch_apart(list, options)
                                                            : sys::launch_apart(list, options));
    const auto started = sys::await_apart(launched, list, kPatience);
    // Not our child where a spawner made it: by descriptor, as its number may be another's by now.
    siginfo_t ended{};
    while (::waitid(P_PIDFD, static_cast<id_t>(launched.child.pidfd.get()), &ended, WEXITED | __WALL) < 0 &&
           errno == EINTR) {
    }
    // The same words as for a command that the keeper starts.
    if (!started && started.error().message.starts_with(command_label(spec)))
        return std::unexpected(
            start_error(keeper::Step::Command, started.error().sys.value(), spec, start.cwd));
    BERTH_CHECK(started);
    return keeper.await_adoption(number);
}

} // namespace berth::keeping

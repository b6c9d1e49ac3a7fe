#include "backend/local/sandbox.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <csignal>
#include <utility>

#include "backend/local/environment.hpp"
#include "backend/local/group_pool.hpp"
#include "backend/local/instance.hpp"
#include "backend/local/keeper_image.hpp"
#include "backend/local/launcher.hpp"
#include "base/hooks.hpp"
#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/log.hpp"
#include "base/scope_exit.hpp"
#include "sys/remove_tree.hpp"
#include "sys/socket.hpp"

namespace berth::local {

namespace {

using namespace std::chrono_literals;

constexpr const char* kSocket = "sock";
constexpr auto kPatience = 10s;
constexpr std::uint32_t kOverflowId = 65534;

/// How the owner outside looks to the keeper, which lets nobody else in.
std::uint32_t owner_seen_inside(const Prepared& prepared)
{
    switch (prepared.identity.mode) {
    case IdMode::Mapped: return kOverflowId;
    case IdMode::Plain: return 0;
    case IdMode::Own: return prepared.plan.layers.kind == Template::Kind::Live ? ::geteuid() : kUserId;
    }
    return kOverflowId;
}

Result<UniqueFd> open_at(int dir, const char* name)
{
    UniqueFd fd(::openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
    if (!fd) return fail_errno("opening {}", name);
    return fd;
}

/// The directory of a sandbox: its name is the record of it. What is half made and nobody's is
/// removed by whoever sweeps.
Result<UniqueFd> make_directory(const StateDir& state, const std::string& id)
{
    BERTH_TRY(const auto all, open_at(state.fd(), "sandbox"));
    if (::mkdirat(all.get(), id.c_str(), 0700) != 0) return fail_errno("creating sandbox {}", id);
    ScopeExit undo([&] { ::unlinkat(all.get(), id.c_str(), AT_REMOVEDIR); });
    BERTH_TRY(auto directory, open_at(all.get(), id.c_str()));
    // Until the keeper is recorded: whoever finds it unlocked and without a record may remove it, and
    // somebody may have done so just now.
    if (::flock(directory.get(), LOCK_EX) != 0) return fail_errno("locking sandbox {}", id);
    struct stat ours{}, named{};
    if (::fstat(directory.get(), &ours) != 0 ||
        ::fstatat(all.get(), id.c_str(), &named, AT_SYMLINK_NOFOLLOW) != 0 || ours.st_ino != named.st_ino)
        return fail(Code::Unavailable, "sandbox {} was removed while it was made", id);
    if (::mkdirat(directory.get(), "exec", 0700) != 0) return fail_errno("creating the logs of {}", id);
    undo.dismiss();
    return directory;
}

/// Uppers on disk, with the sandbox's own ids; the launch shows them as the leased ones.
Status make_uppers(int directory)
{
    for (const char* name : {"fs", "fs/u1", "fs/w1", "fs/u2", "fs/w2", "fs/u1/etc"})
        if (::mkdirat(directory, name, 0755) != 0) return fail_errno("creating the layer {}", name);
    UniqueFd file(::openat(directory, "fs/u1/etc/machine-id", O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0444));
    if (!file) return fail_errno("creating the machine id");
    return write_all(file.get(), random_hex(16) + "\n");
}

sys::GroupLimits group_limits(const policy::Limits& limits, const sys::CgroupTree& tree)
{
    sys::GroupLimits out;
    if (tree.of(sys::Controller::Memory).available()) out.memory = limits.memory;
    if (tree.of(sys::Controller::Cpu).available()) out.cpus = limits.cpus;
    if (tree.of(sys::Controller::Pids).available()) out.pids = limits.pids;
    return out;
}

/// Kills everything inside; true when it has ended.
bool end_keeper(int pidfd, bool parent)
{
    ::syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0);
    pollfd gone{.fd = pidfd, .events = POLLIN, .revents = 0};
    if (::poll(&gone, 1, 10'000) != 1) return false;
    siginfo_t told{};
    constexpr auto by_pidfd = static_cast<idtype_t>(3); // P_PIDFD, Linux 5.4
    if (parent) ::waitid(by_pidfd, static_cast<id_t>(pidfd), &told, WEXITED);
    return true;
}

} // namespace

Status discard(const StateDir& state, const std::string& id)
{
    BERTH_TRY(const auto all, open_at(state.fd(), "sandbox"));
    BERTH_TRY(const auto trash, open_at(state.fd(), "trash"));
    BERTH_CHECK(sys::move_to_trash(all.get(), id, trash.get()));
    return sys::empty_trash(trash.get());
}

Result<Sandbox> Sandbox::create(const StateDir& state, const SandboxSpec& spec, const Options& options)
{
    if (!is_id(spec.id, "sbx_")) return fail(Code::Invalid, "'{}' is not the id of a sandbox", spec.id);
    const bool limited = spec.policy.limits.memory || spec.policy.limits.cpus || spec.policy.limits.pids;
    std::optional<sys::CgroupTree> tree;
    if ((limited || options.groups) && !hooks::wall_off("cgroup")) tree.emplace(sys::CgroupTree::open());
    const policy::Holding held{.tier = policy::Tier::Outside, .how = "control groups"};
    const LimitAvailability available = tree && limited
                                            ? availability_of(*tree)
                                            : LimitAvailability{.memory = held, .cpu = held, .pids = held};
    BERTH_TRY(auto prepared, prepare(state, spec, available, options.pools, options.progress));
    Plan& plan = prepared->plan;
    plan.kept = true;

    BERTH_TRY(auto directory, make_directory(state, spec.id));
    ScopeExit undo([&] { (void)discard(state, spec.id); });
    hooks::kill_point("sandbox recorded");
    if (options.storage == Storage::Disk) {
        BERTH_CHECK(make_uppers(directory.get()));
        plan.durable_upper = fmt::format("{}/{}/fs", state.sandboxes(), spec.id);
    }
    std::optional<sys::KeptGroup> group;
    ScopeExit undo_group([&] {
        if (group) (void)sys::KeptGroup::remove(group->places());
    });
    if (tree) {
        const auto limits = group_limits(spec.policy.limits, *tree);
        const bool freezable = options.groups && tree->of(sys::Controller::Freezer).available();
        if (limits.controllers().any() || freezable) {
            BERTH_TRY(auto made, tree->make_kept(spec.id, limits));
            group.emplace(std::move(made));
            plan.keeper_clones = !group->places().v2.empty();
            const auto root = prepared->identity.outside(0);
            if (prepared->identity.mode == IdMode::Mapped) BERTH_CHECK(group->delegate(root, root));
        }
    }

    hooks::kill_point("sandbox's groups made");
    BERTH_TRY(auto listener, sys::listen_at(directory.get(), kSocket, sys::SocketKind::SeqPacket));
    BERTH_TRY(const int image, keeper_image());
    const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    if (!null) return fail_errno("opening /dev/null");
    Entry entry;
    entry.program = image;
    entry.argv = {"k", std::to_string(owner_seen_inside(*prepared))};
    entry.in = entry.out = entry.err = null.get();
    entry.socket = listener.get();
    entry.cgroup = group ? group->keeper_directory() : -1;
    BERTH_TRY(auto launched, launch(plan, entry, options.spawner));
    // A copy of the listening socket here would go on accepting for a dead keeper.
    listener.reset();
    const bool parent = options.spawner == nullptr;
    ScopeExit undo_keeper([&] { (void)end_keeper(launched.pidfd.get(), parent); });
    hooks::kill_point("keeper started");
    BERTH_TRY(auto keeper, KeeperClient::connect(directory.get(), kSocket, kPatience));
    BERTH_CHECK(keeper.ping());
    const auto process = sys::process_of(launched.pid);
    if (!process) return fail(Code::Unavailable, "the keeper of {} ended at once", spec.id);
    BERTH_CHECK(write_instance(
        directory.get(),
        {.spec = spec,
         .keeper = *process,
         .boot = boot_id(),
         .mode = prepared->identity.mode,
         .slot = prepared->identity.range ? std::optional(prepared->identity.range->slot()) : std::nullopt,
         .layers = plan.layers,
         .net = plan.net,
         .groups = group ? group->places() : sys::GroupPlaces{}}));
    ::flock(directory.get(), LOCK_UN);
    hooks::kill_point("sandbox made");
    prepared->let_go();
    Sandbox sandbox(std::move(prepared), std::move(directory), std::move(keeper));
    sandbox.keeper_pid_ = launched.pid;
    sandbox.pidfd_ = std::move(launched.pidfd);
    sandbox.parent_ = parent;
    sandbox.group_ = std::exchange(group, std::nullopt);
    undo_keeper.dismiss();
    undo.dismiss();
    undo_group.dismiss();
    return sandbox;
}

Sandbox::Sandbox(Sandbox&&) noexcept = default;

Status Sandbox::destroy()
{
    const auto& plan = prepared_->plan;
    // The frozen of v1 do not die, and the keeper's own end waits for theirs.
    if (const auto state = paused(); state && state->now) (void)group_->execs().kill_all();
    if (!end_keeper(pidfd_.get(), parent_))
        return fail(Code::Unavailable, "the keeper of {} does not end", id());
    hooks::kill_point("keeper killed");
    if (group_) {
        const auto places = group_->places();
        group_.reset();
        BERTH_CHECK(sys::KeptGroup::remove(places));
    }
    spares_.clear();
    return discard(*plan.state, id());
}

Result<UniqueFd> Sandbox::open_of_keeper(const char* what, int flags) const
{
    UniqueFd fd(::open(fmt::format("/proc/{}/{}", keeper_pid_, what).c_str(), flags | O_CLOEXEC));
    const int error = errno;
    // It has had the number all the time if it has it still.
    pollfd dead{.fd = pidfd_.get(), .events = POLLIN, .revents = 0};
    if (::poll(&dead, 1, 0) != 0) return fail(Code::Unavailable, "the keeper of {} is gone", id());
    if (!fd) return fail_with(error, "opening the {} of {}", what, id());
    return fd;
}

Result<sys::SandboxFiles> Sandbox::files(const std::string& user) const
{
    const auto& identity = prepared_->identity;
    Account account = prepared_->user;
    if (!user.empty()) {
        BERTH_TRY(account, account_for(user, prepared_->plan.layers, identity));
    }
    BERTH_TRY(auto root, open_of_keeper("root", O_RDONLY | O_DIRECTORY));
    sys::FileCredentials credentials;
    if (identity.mode == IdMode::Own) {
        credentials.uid = ::geteuid();
        credentials.gid = ::getegid();
    } else {
        credentials.uid = identity.outside(account.uid);
        credentials.gid = identity.outside(account.gid);
    }
    return sys::SandboxFiles::open(std::move(root), credentials);
}

} // namespace berth::local

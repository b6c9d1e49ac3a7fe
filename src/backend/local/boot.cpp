// The way from the files of an instance to a keeper that answers: the same for one that is made and
// for one that starts again.

#include "backend/local/boot.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "backend/local/bound_usr.hpp"
#include "backend/local/copy_layers.hpp"
#include "backend/local/environment.hpp"
#include "backend/local/group_pool.hpp"
#include "backend/local/keeper_process.hpp"
#include "backend/local/launcher.hpp"
#include "backend/local/shared.hpp"
#include "backend/local/strays.hpp"
#include "base/hooks.hpp"
#include "base/scope_exit.hpp"
#include "keeping/keeper_image.hpp"
#include "sys/socket.hpp"

namespace berth::local {

namespace {

using namespace std::chrono_literals;
using keeping::at_pins;

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

Result<std::optional<sys::KeptGroup>> make_groups(const std::string& native, int directory,
                                                  Instance& instance, const Grounds& grounds,
                                                  Recorded recorded)
{
    std::optional<sys::KeptGroup> group;
    instance.groups = groups_for(native, grounds);
    if (instance.groups.empty()) return group;
    if (recorded == Recorded::Yes) BERTH_CHECK(write_instance(directory, instance));
    auto made = recorded == Recorded::WithGroups ? sys::KeptGroup::open(instance.groups)
                                                 : Result<sys::KeptGroup>(fail(Code::NotFound, "no groups"));
    if (!made)
        made = grounds.tree->make_kept(native, group_limits(instance.spec.policy.limits, *grounds.tree));
    if (!made) return std::unexpected(std::move(made).error());
    group.emplace(*std::move(made));
    const auto& identity = grounds.prepared->identity;
    if (identity.mode == IdMode::Mapped)
        BERTH_CHECK(group->delegate(identity.outside(0), identity.outside(0)));
    return group;
}

/// Of a keeper that was just started. One that died before it could answer says how.
Result<KeeperClient> first_answer(int directory, int pidfd)
{
    auto keeper = KeeperClient::connect(directory, kSocket, kPatience);
    Status answered = keeper ? keeper->ping() : Status(std::unexpected(keeper.error()));
    if (answered) return keeper;
    const auto end = end_of_keeper(pidfd);
    if (!end) return std::unexpected(std::move(answered).error());
    return std::unexpected(std::move(answered).error().while_doing(
        fmt::format("starting its keeper, which ended at once ({})", to_string(*end))));
}

/// By which the keeper of a parked one knows whether somebody is left to claim it.
struct MakerEnds {
    UniqueFd ours;
    UniqueFd keepers;
    UniqueFd unclaimed;
};

Result<MakerEnds> open_maker(int directory)
{
    int ends[2];
    if (::pipe2(&ends[0], O_CLOEXEC | O_NONBLOCK) != 0) return fail_errno("making a pipe");
    MakerEnds out{.ours = UniqueFd(ends[1]), .keepers = UniqueFd(ends[0]), .unclaimed = {}};
    BERTH_TRY(out.unclaimed, open_unclaimed(directory));
    return out;
}

} // namespace

sys::GroupLimits group_limits(const policy::Limits& limits, const sys::CgroupTree& tree)
{
    sys::GroupLimits out;
    if (tree.of(sys::Controller::Memory).available()) out.memory = limits.memory;
    if (tree.of(sys::Controller::Cpu).available()) out.cpus = limits.cpus;
    if (tree.of(sys::Controller::Pids).available()) out.pids = limits.pids;
    return out;
}

Result<Grounds> prepare_kept(const StateDir& state, const SandboxSpec& spec, const GroundOptions& options)
{
    Grounds out;
    out.groups = options.groups;
    const bool limited = spec.policy.limits.memory || spec.policy.limits.cpus || spec.policy.limits.pids;
    if ((limited || options.groups) && !hooks::wall_off("cgroup")) out.tree.emplace(sys::CgroupTree::open());
    const policy::Holding held{.tier = policy::Tier::Outside, .how = "control groups"};
    const LimitAvailability available = out.tree && limited
                                            ? availability_of(*out.tree)
                                            : LimitAvailability{.memory = held, .cpu = held, .pids = held};
    // A link in the spec's own words may lead elsewhere by now.
    BERTH_TRY(out.prepared, prepare(state, options.pins != nullptr ? at_pins(spec, *options.pins) : spec,
                                    available, options.pools, options.progress, options.known, options.pins));
    out.prepared->plan.kept = true;
    return out;
}

sys::GroupPlaces groups_for(const std::string& native, const Grounds& grounds)
{
    if (!grounds.tree) return {};
    const auto limits = group_limits(grounds.prepared->spec.policy.limits, *grounds.tree);
    const bool freezable = grounds.groups && grounds.tree->of(sys::Controller::Freezer).available();
    if (!limits.controllers().any() && !freezable) return {};
    return grounds.tree->kept_places(native, limits);
}

Status check_usr(const StateDir& state, const std::string& native, const Instance& instance, const Plan& plan)
{
    if (plan.in_usr.empty()) return {};
    std::vector<std::string> layers;
    if (!instance.in_memory) layers.push_back(fmt::format("{}/{}/fs", state.sandboxes(), native));
    for (const auto& id : instance.stack) layers.push_back(fmt::format("{}/{}", state.layers(), id));
    return check_only_local(layers, fmt::format("{}/{}", plan.layers.usr, plan.in_usr.front().below));
}

Result<Booted> boot(const StateDir& state, const std::string& native, int directory, Instance& instance,
                    Grounds grounds, Recorded recorded, sys::Spawner* spawner)
{
    const auto& prepared = grounds.prepared;
    Plan& plan = prepared->plan;
    if (!instance.in_memory) plan.durable_upper = fmt::format("{}/{}/fs", state.sandboxes(), native);
    plan.stack = instance.stack;
    BERTH_CHECK(check_usr(state, native, instance, plan));
    if (!instance.in_memory) BERTH_CHECK(make_copy_layers(directory, plan));
    ScopeExit undo_group([&] {
        if (!instance.groups.empty()) (void)sys::KeptGroup::remove(instance.groups);
    });
    BERTH_TRY(auto group, make_groups(native, directory, instance, grounds, recorded));
    plan.keeper_clones =
        group && !group->places().v2.empty() && !may_gain(prepared->spec, prepared->identity);
    hooks::kill_point("sandbox's groups made");

    BERTH_TRY(auto listener, sys::listen_at(directory, kSocket, sys::SocketKind::SeqPacket));
    ScopeExit undo_socket([&] { ::unlinkat(directory, kSocket, 0); });
    BERTH_TRY(const int image, keeper_image());
    const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    if (!null) return fail_errno("opening /dev/null");
    Entry entry;
    entry.program = image;
    BERTH_TRY(const auto mark, keeper_mark(state, native));
    entry.argv = {"k", mark, std::to_string(owner_seen_inside(*prepared))};
    MakerEnds ends;
    if (recorded == Recorded::Parked) {
        BERTH_TRY(ends, open_maker(directory));
        entry.argv.insert(entry.argv.begin() + 2, "p");
        entry.more = {ends.keepers.get(), ends.unclaimed.get()};
    }
    entry.in = entry.out = entry.err = null.get();
    entry.socket = listener.get();
    entry.cgroup = group ? group->keeper_directory() : -1;
    BERTH_TRY(auto launched, launch(plan, entry, spawner));
    // A copy of the listening socket here would go on accepting for a dead keeper.
    listener.reset();
    ends.keepers.reset();
    ScopeExit undo_keeper([&] { (void)end_keeper(launched.pidfd.get()); });
    hooks::kill_point("keeper started");
    BERTH_TRY(auto keeper, first_answer(directory, launched.pidfd.get()));
    const auto process = sys::process_of(launched.pid);
    if (!process) return fail(Code::Unavailable, "the keeper of {} ended at once", native);

    instance.keeper = *process;
    instance.boot = boot_id();
    instance.mode = prepared->identity.mode;
    instance.slot = prepared->identity.range ? std::optional(prepared->identity.range->slot()) : std::nullopt;
    instance.layers = plan.layers;
    instance.pins.clear();
    for (const Bind& bind : plan.binds)
        if (!bind.volume) instance.pins.push_back(bind.pin);
    instance.net = plan.net;
    instance.stopped = false;
    instance.unsynced_since.reset(); // the caller tells it now
    BERTH_CHECK(recorded == Recorded::Parked ? write_parked(directory, instance)
                                             : write_instance(directory, instance));
    undo_keeper.dismiss();
    undo_socket.dismiss();
    undo_group.dismiss();
    hooks::kill_point("keeper recorded");
    prepared->let_go();
    return Booted{.prepared = std::move(grounds.prepared),
                  .keeper = std::move(keeper),
                  .pid = launched.pid,
                  .pidfd = std::move(launched.pidfd),
                  .group = std::move(group),
                  .maker = std::move(ends.ours)};
}

} // namespace berth::local

#pragma once

#include <csignal>
#include <fstream>
#include <functional>
#include <map>
#include <memory>

#include "core/weighs_snapshots.hpp"
#include "support/fake_backend.hpp"

namespace berth {

/// Instances without a kernel: for what no machine does on demand, like an outage in the middle. Several
/// backends may share one world, as several processes share a machine.
struct World {
    struct Instance {
        State state = State::Running;
        SandboxSpec spec;
        InstanceLabels labels;
        std::string from; ///< the snapshot it was made from
        std::chrono::milliseconds paused{0};
    };
    std::map<std::string, Instance> instances; ///< by native name
    std::map<std::string, std::vector<ExecInfo>> execs;
    std::vector<int> signals;                      ///< that were sent to any of them
    std::function<void(ExecInfo&, int)> on_signal; ///< what it does; nothing where it is empty
    bool starters_live = true;                     ///< of execs without an event
    bool outage = false;                           ///< nothing can be asked
    int unresponsive = 0;                          ///< so many inspections get no answer
    bool create_fails = false;                     ///< as a full disk would
    bool outage_at_snapshot = false;               ///< begins when one is asked for
    std::set<std::string> others;                  ///< keys for which somebody else made an instance
    std::size_t creates = 0;
    std::size_t scans = 0;
    std::size_t kept_alive = 0;       ///< so often it was told that one is in use
    std::function<void()> after_scan; ///< what happens while somebody reads the answer
    std::string name = "world";
    std::vector<std::string> restores{"world"};
    bool holds = true;      ///< what a policy asks for
    bool counts = true;     ///< what a snapshot takes, as it is taken
    std::size_t weighs = 0; ///< how often it did later
};

class WorldBackend final : public FakeBackend, public WeighsSnapshots {
public:
    explicit WorldBackend(std::shared_ptr<World> world) : world_(std::move(world)) {}

    [[nodiscard]] std::string_view name() const override { return world_->name; }
    [[nodiscard]] Capabilities capabilities() const override
    {
        Capabilities out;
        for (const auto feature : policy::all_features())
            if (world_->holds && feature != policy::Feature::NetworkOpen)
                out.holds.set(feature, policy::Tier::Outside, "the world's word");
        out.operations = {Operation::Stop, Operation::Pause, Operation::Snapshot};
        out.snapshots = {"world"};
        out.restores = world_->restores;
        return out;
    }

    Task<Status> keep_alive(SandboxHandle, std::chrono::seconds) override
    {
        if (world_->outage) co_return down();
        ++world_->kept_alive;
        co_return Status{};
    }
    Task<Result<SandboxHandle>> create(CreateRequest request) override
    {
        if (world_->outage) co_return down();
        if (world_->create_fails) co_return fail(Code::Exhausted, "no space left in the world");
        const auto& id = request.spec.id;
        const auto generation = request.labels.generation;
        const std::string native = generation == 1 ? id : fmt::format("{}.{}", id, generation);
        ++world_->creates;
        world_->instances[native] = {.state = State::Running,
                                     .spec = request.spec,
                                     .labels = request.labels,
                                     .from = request.from ? request.from->id : std::string{}};
        co_return SandboxHandle{.sandbox = id, .native = native};
    }
    Task<Result<std::optional<SandboxHandle>>> adopt(CreateRequest request) override
    {
        if (!world_->others.contains(request.labels.key)) co_return std::optional<SandboxHandle>{};
        const auto& id = request.spec.id;
        world_->instances[id] = {
            .state = State::Running, .spec = request.spec, .labels = request.labels, .from = "somebody else"};
        co_return SandboxHandle{.sandbox = id, .native = id};
    }
    Task<Result<SandboxHandle>> attach(std::string native) override
    {
        co_return SandboxHandle{.sandbox = "sbx_01m7hsc93cf719eztd8hj9etad", .native = std::move(native)};
    }
    Task<Status> destroy(SandboxHandle sandbox) override
    {
        if (world_->outage) co_return down();
        world_->instances.erase(sandbox.native);
        co_return Status{};
    }
    Task<Result<std::vector<Found>>> scan() override
    {
        if (world_->outage) co_return down();
        std::vector<Found> out;
        for (const auto& [native, one] : world_->instances) out.push_back(found(native, one));
        ++world_->scans;
        if (world_->after_scan) world_->after_scan();
        co_return out;
    }
    Task<Result<Found>> inspect(SandboxHandle sandbox) override
    {
        if (world_->outage) co_return down();
        if (world_->unresponsive > 0) {
            --world_->unresponsive;
            co_return Found{.sandbox = sandbox, .health = Health::Unresponsive, .state = State::Running};
        }
        const auto at = world_->instances.find(sandbox.native);
        if (at == world_->instances.end()) co_return Found{.sandbox = sandbox};
        co_return found(at->first, at->second);
    }
    Task<Result<std::vector<ExecInfo>>> execs(SandboxHandle sandbox) override
    {
        co_return world_->execs[sandbox.native];
    }
    Task<Status> settle_exec(SandboxHandle sandbox, std::string exec) override
    {
        for (auto& one : world_->execs[sandbox.native])
            if (one.id == exec && one.events == 0 && !world_->starters_live)
                one = {.id = exec, .running = false, .status = ExitStatus::unknown(), .events = 2};
        co_return Status{};
    }
    Task<Status> signal(SandboxHandle sandbox, std::string exec, int signo) override
    {
        if (world_->outage) co_return down();
        world_->signals.push_back(signo);
        for (auto& one : world_->execs[sandbox.native])
            if (one.id == exec && one.running && world_->on_signal) world_->on_signal(one, signo);
        co_return Status{};
    }
    Task<Status> kill(SandboxHandle sandbox, std::string exec) override
    {
        if (world_->outage) co_return down();
        world_->signals.push_back(SIGKILL);
        for (auto& one : world_->execs[sandbox.native])
            if (one.id == exec && one.running) {
                one.running = false;
                one.status = ExitStatus::from_wait(SIGKILL);
            }
        co_return Status{};
    }
    Task<Result<std::optional<Ended>>> wait(SandboxHandle sandbox, std::string exec, SteadyTime) override
    {
        for (const auto& one : world_->execs[sandbox.native])
            if (one.id == exec && one.status) co_return Ended{.status = *one.status, .struck = {}};
        co_return std::optional<Ended>{};
    }
    Task<Status> stop(SandboxHandle sandbox, std::chrono::milliseconds) override
    {
        co_return set(sandbox, State::Stopped);
    }
    Task<Result<Started>> start(SandboxHandle sandbox) override
    {
        if (auto done = set(sandbox, State::Running); !done) co_return std::unexpected(done.error());
        co_return Started{};
    }
    Task<Status> pause(SandboxHandle sandbox) override { co_return set(sandbox, State::Paused); }
    Task<Status> resume(SandboxHandle sandbox) override { co_return set(sandbox, State::Running); }
    Task<Result<SnapshotTaken>> snapshot(SandboxHandle, SnapshotRequest request) override
    {
        if (world_->outage_at_snapshot) world_->outage = true;
        if (world_->outage) co_return down();
        std::ofstream(request.directory + "/payload") << "bytes of the world";
        co_return SnapshotTaken{.kind = request.kind,
                                .bytes = world_->counts ? 18u : 0u,
                                .sha256 = "47ca8e3f8ce3ad46c9c4c5ee6d4a6fb9e4ac5ae5ed7cf0ffcf7b2b7d5bb1c1a0",
                                .file = {}};
    }
    Task<Result<std::uint64_t>> weigh(SnapshotSource) override
    {
        if (world_->outage) co_return down();
        ++world_->weighs;
        co_return 18u;
    }

private:
    static std::unexpected<Error> down() { return fail(Code::Unavailable, "the world does not answer"); }
    static Found found(const std::string& native, const World::Instance& one)
    {
        return {.sandbox = {.sandbox = one.spec.id, .native = native},
                .health = Health::Healthy,
                .state = one.state,
                .labels = one.labels,
                .paused = one.paused};
    }
    Status set(const SandboxHandle& sandbox, State state)
    {
        if (world_->outage) return down();
        const auto at = world_->instances.find(sandbox.native);
        if (at == world_->instances.end()) return fail(Code::NotFound, "no {}", sandbox.native);
        at->second.state = state;
        return {};
    }

    std::shared_ptr<World> world_;
};

} // namespace berth

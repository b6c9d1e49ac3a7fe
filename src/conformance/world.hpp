#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "conformance/context.hpp"
#include "lifecycle/lifecycle.hpp"

namespace berth::conformance {

/// The machine's clock, moved by whoever checks what time does.
class MovedClock final : public Clock {
public:
    [[nodiscard]] WallTime now() const override { return system_clock().now() + by.load(); }
    [[nodiscard]] SteadyTime steady() const override { return system_clock().steady(); }
    std::atomic<std::chrono::nanoseconds> by{std::chrono::nanoseconds{0}};
};

/// One program of several on a store: everything but the files is its own.
struct Process {
    std::unique_ptr<Store> store;
    std::unique_ptr<BackendRegistry> registry;
    std::unique_ptr<Backends> backends;
    std::unique_ptr<Lifecycle> lifecycle;
};

/// A store of its own and the programs that use it. Its sandboxes are gone with it.
class World {
public:
    [[nodiscard]] static Result<std::unique_ptr<World>> make(Context& c);
    World(const World&) = delete;
    World& operator=(const World&) = delete;
    ~World();

    /// A further program. Lives as long as the world.
    [[nodiscard]] Result<Process*> process();
    [[nodiscard]] AcquireRequest request(std::string key) const;
    /// By the first program.
    [[nodiscard]] Lifecycle& life() { return *processes_.front()->lifecycle; }
    [[nodiscard]] Result<Acquired> acquire(std::string key);
    /// How many events of a type the ledger has; of one sandbox, or of all.
    [[nodiscard]] Result<std::size_t> told(const std::string& type, const std::string& sandbox = {});
    [[nodiscard]] static SandboxHandle handle(const Acquired& acquired)
    {
        return Lifecycle::handle(acquired.record);
    }
    /// The instance goes away behind everybody's back.
    [[nodiscard]] Status lose(const Acquired& acquired);
    [[nodiscard]] Result<std::vector<GcAction>> collect(GcWish wish = {});

    MovedClock clock;
    std::shared_ptr<std::atomic<bool>> outage = std::make_shared<std::atomic<bool>>(false);
    Context& c;

private:
    explicit World(Context& context) : c(context) {}
    std::string data_;
    std::vector<std::unique_ptr<Process>> processes_;
};

/// Holds when this tier gave it.
[[nodiscard]] Status came_by(const Acquired& acquired, Tier want);
/// Holds when its record has this state.
[[nodiscard]] Status in_state(World& world, const std::string& ref, State want);

} // namespace berth::conformance

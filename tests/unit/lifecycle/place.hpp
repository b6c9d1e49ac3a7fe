#pragma once

#include <stdlib.h>

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lifecycle/lifecycle.hpp"
#include "store/sqlite/sqlite_store.hpp"
#include "support/run_task.hpp"
#include "support/world_backend.hpp"

namespace berth {

class OwnClock final : public Clock {
public:
    WallTime now() const override { return time; }
    SteadyTime steady() const override { return system_clock().steady(); }
    WallTime time = system_clock().now();
};

/// One process's lifecycle over a world and a store that may be shared.
struct Process {
    std::unique_ptr<store::SqliteStore> store;
    BlockingPool pool{2};
    BackendRegistry registry;
    std::unique_ptr<Backends> backends;
    std::unique_ptr<Lifecycle> lifecycle;

    Process(const std::string& data, std::shared_ptr<World> world, const Clock& clock)
    {
        store = *store::SqliteStore::open(data + "/store.db", clock);
        registry.add("world", [world](const BackendOptions&) -> Result<std::unique_ptr<Backend>> {
            return std::make_unique<WorldBackend>(world);
        });
        backends = std::make_unique<Backends>(registry, BackendOptions{.state_path = data, .pool = &pool});
        lifecycle = std::make_unique<Lifecycle>(*store, *backends, pool, data, clock);
    }
};

class LifecycleTest : public ::testing::Test {
protected:
    LifecycleTest()
    {
        char path[] = "/tmp/berth-lifecycle-XXXXXX";
        data_ = ::mkdtemp(&path[0]);
    }
    ~LifecycleTest() override { std::filesystem::remove_all(data_); }

    std::unique_ptr<Process> process() { return std::make_unique<Process>(data_, world_, clock_); }

    static AcquireRequest wish(const std::string& key, const std::string& name = {})
    {
        AcquireRequest out;
        out.spec.policy = *policy::preset("sandbox");
        out.spec.name = name;
        out.key = key;
        out.backend = "world";
        return out;
    }
    static Acquired must(Result<Acquired> answer)
    {
        EXPECT_TRUE(answer) << answer.error().line();
        return answer ? *std::move(answer) : Acquired{};
    }
    std::size_t told(Process& process, const std::string& type) const
    {
        return process.store->ledger({.type = type})->size();
    }

    std::shared_ptr<World> world_ = std::make_shared<World>();
    OwnClock clock_;
    std::string data_;
};

} // namespace berth

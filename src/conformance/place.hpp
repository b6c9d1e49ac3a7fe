#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/blocking_pool.hpp"
#include "core/registry.hpp"

namespace berth::conformance {

/// What the suite is run on.
struct Options {
    std::string backend = "local";
    std::string directory; ///< absolute; a directory of our own is made below it, and removed
    Template root;         ///< what sandboxes start from
    std::string user = "user";
    std::chrono::seconds patience{60}; ///< of one call to the backend
};

/// Where a run of the suite happens: a state directory of its own, the backend opened on it, and a sandbox
/// for checks that do not disturb each other. What the suite made is gone when it goes.
class Place {
public:
    /// A variable of this process's environment that no sandbox may see.
    static constexpr const char* kCanary = "BERTH_CONFORMANCE_CANARY";

    [[nodiscard]] static Result<std::unique_ptr<Place>> make(const BackendRegistry& registry,
                                                             Options options);
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place();

    [[nodiscard]] const Options& options() const noexcept { return options_; }
    [[nodiscard]] const BackendRegistry& registry() const noexcept { return registry_; }
    [[nodiscard]] Backend& backend() noexcept { return *backend_; }
    [[nodiscard]] BlockingPool& pool() noexcept { return *pool_; }
    [[nodiscard]] std::string state() const { return directory_ + "/state"; }
    /// A second view of the same state knows as little of the first as another process does.
    [[nodiscard]] Result<std::unique_ptr<Backend>> reopen();
    /// An empty directory of the host, gone with the place.
    [[nodiscard]] Result<std::string> scratch();

    /// A specification any backend should take, with a fresh id.
    [[nodiscard]] SandboxSpec spec() const;
    /// The sandbox that checks share, made when it is first asked for.
    [[nodiscard]] Result<SandboxHandle> shared();
    [[nodiscard]] const std::optional<SandboxHandle>& shared_now() const noexcept { return shared_; }
    /// Where the user of a sandbox is at home: kept by stop and snapshot.
    [[nodiscard]] Result<std::string> home();
    /// The same as every sandbox's files call it: where each has a directory of its own, "/home/user" is it.
    [[nodiscard]] Result<std::string> any_home();
    /// The next name that no check has used.
    [[nodiscard]] std::string unused() { return "c" + std::to_string(++count_); }

    /// Carries a task out on this thread. False: it did not end in time, and is left to itself.
    [[nodiscard]] bool finish(Task<void> task);
    template <class T> T await(Task<T> task)
    {
        auto value = std::make_shared<std::optional<T>>();
        const auto keep = [](Task<T> work, std::shared_ptr<std::optional<T>> into) -> Task<void> {
            into->emplace(co_await std::move(work));
        };
        if (!finish(keep(std::move(task), value)))
            return fail(Code::DeadlineExceeded, "the backend did not answer within {} s",
                        options_.patience.count());
        return *std::move(*value);
    }
    /// A call never returned: nothing of ours can be taken down any more, and nothing further is run.
    [[nodiscard]] bool stuck() const noexcept { return stuck_; }

    void remember(const std::string& id) { made_.insert(id); }
    /// Those of our sandboxes that the backend still has.
    [[nodiscard]] Result<std::vector<SandboxHandle>> left();

private:
    Place(const BackendRegistry& registry, Options options)
        : registry_(registry), options_(std::move(options))
    {
    }
    void remove() noexcept;

    const BackendRegistry& registry_;
    Options options_;
    std::string directory_;
    std::unique_ptr<BlockingPool> pool_;
    std::unique_ptr<Backend> backend_;
    std::optional<SandboxHandle> shared_;
    std::string home_;
    std::set<std::string> made_;
    unsigned count_ = 0;
    bool stuck_ = false;
};

} // namespace berth::conformance

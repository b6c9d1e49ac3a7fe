#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "backend/local/attended.hpp"
#include "backend/local/state_dir.hpp"
#include "base/blocking_pool.hpp"
#include "protocol/codex/process.hpp"
#include "server/codex/binding.hpp"
#include "server/codex/rpc.hpp"
#include "sys/sandbox_files_worker.hpp"

namespace berth::codex {

struct StartedCommand {
    local::Attended command;
    bool confined = true;
};

/// This machine as a place to run commands and touch files, under the operator's ceiling.
class Executor {
public:
    Executor(local::StateDir state, Ceiling ceiling, BlockingPool& pool);

    [[nodiscard]] BlockingPool& pool() noexcept { return pool_; }
    [[nodiscard]] const Ceiling& ceiling() const noexcept { return ceiling_; }
    [[nodiscard]] const Places& places() const noexcept { return places_; }
    [[nodiscard]] json::Object info() const;

    Task<std::expected<StartedCommand, RpcError>> start(StartParams params);

    /// The decision for a file operation. Blocks for a moment: on the pool.
    [[nodiscard]] Result<Bound> bind_files(const std::optional<Intent>& intent) const;

    /// `work` with the rights a confined process has at `path`; for the pool's threads.
    template <class F> std::invoke_result_t<F> as_confined(Bound& bound, const std::string& path, F work)
    {
        const auto worker = worker_for(bound, path);
        if (!worker) return std::unexpected(worker.error());
        return *worker == nullptr ? work() : (*worker)->run(work);
    }

private:
    /// Null: our own rights are the right ones.
    [[nodiscard]] Result<sys::FileWorker*> worker_for(Bound& bound, const std::string& path);

    local::StateDir state_;
    Ceiling ceiling_;
    BlockingPool& pool_;
    Places places_;
    std::map<std::string, std::string> environment_; ///< ours, as far as commands may have it
    std::mutex mutex_;
    std::map<std::pair<uid_t, gid_t>, std::unique_ptr<sys::FileWorker>> workers_;
};

} // namespace berth::codex

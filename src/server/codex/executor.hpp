#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "backend/local/state_dir.hpp"
#include "server/codex/binding.hpp"
#include "server/codex/place.hpp"
#include "sys/file_credentials.hpp"

namespace berth::codex {

/// This machine as a place to run commands and touch files, under the operator's ceiling.
class Executor final : public Place {
public:
    Executor(local::StateDir state, Ceiling ceiling, BlockingPool& pool);

    [[nodiscard]] BlockingPool& pool() noexcept override { return pool_; }
    [[nodiscard]] json::Object info() const override;
    Task<Outcome<Started>> start(StartParams params) override;

    // executor_files.cpp
    Task<Outcome<files::Metadata>> metadata(PathParams params) override;
    Task<Outcome<std::string>> canonical(PathParams params) override;
    Task<Outcome<std::string>> read(PathParams params) override;
    Task<Outcome<void>> write(WriteFileParams params) override;
    Task<Outcome<void>> make_directory(PathParams params) override;
    Task<Outcome<void>> remove(PathParams params, std::stop_token left) override;
    Task<Outcome<std::vector<files::Entry>>> list(PathParams params) override;
    Task<Outcome<void>> copy(CopyParams params, std::stop_token left) override;
    Task<Outcome<files::WalkResult>> walk(WalkParams params, std::stop_token left) override;
    Task<Outcome<OpenFile>> open(OpenParams params) override;
    [[nodiscard]] std::shared_ptr<Watcher> watcher(boost::asio::any_io_executor loop, Fire fire) override;
    Task<void> leave() override { co_return; }

private:
    /// The decision for a file operation. Blocks for a moment: on the pool.
    [[nodiscard]] Result<Bound> bind_files(const std::optional<Intent>& intent) const;

    /// `work` with the rights a confined process has at `path`; for the pool's threads.
    template <class F>
    static std::invoke_result_t<F> as_confined(Bound& bound, const std::string& path, F work)
    {
        const auto ids = acting_ids(bound, path);
        return ids ? sys::result_as(*ids, work) : work();
    }

    /// On the pool, with the rights and the decision of the intent.
    template <class F>
    auto on_files(BlockingPool& pool, const std::optional<Intent>& intent, const std::string& path, F work,
                  std::stop_token left = {})
        -> Task<Outcome<typename std::invoke_result_t<F, const Bound&>::value_type>>;

    /// The same for work that takes its rights by itself.
    template <class F>
    auto on_bound(BlockingPool& pool, const std::optional<Intent>& intent, F work, std::stop_token left)
        -> Task<Outcome<typename std::invoke_result_t<F, Bound&>::value_type>>;

    [[nodiscard]] bool shows(const WatchParams& params) const;
    /// While a command runs an empty directory stands for a name that it must not make: to whoever asks,
    /// nothing is there.
    [[nodiscard]] bool is_stand_in(const std::string& path) const;

    /// Nothing: our own rights are the right ones.
    [[nodiscard]] static std::optional<sys::FileCredentials> acting_ids(Bound& bound,
                                                                        const std::string& path);

    local::StateDir state_;
    Ceiling ceiling_;
    BlockingPool& pool_;
    BlockingPool slow_{16}; ///< for whole trees, which may take hours; a client has one at a time
    Places places_;
    std::map<std::string, std::string> environment_; ///< ours, as far as commands may have it
};

} // namespace berth::codex

#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "backend/e2b/api.hpp"
#include "backend/e2b/envd.hpp"
#include "core/backend.hpp"

namespace berth::e2b_client {

/// The control plane and the daemons behind it, and what is known of the sandboxes just used. Calls block.
/// For any thread.
class Cloud {
public:
    explicit Cloud(Config config) : api_(std::move(config)), envd_(api_.config()) {}

    [[nodiscard]] Api& api() noexcept { return api_; }
    [[nodiscard]] Envd& envd() noexcept { return envd_; }
    [[nodiscard]] const Config& config() const noexcept { return api_.config(); }

    /// The cloud's id of an instance. Invalid: a name of nothing; NotFound: the cloud has none.
    [[nodiscard]] Result<std::string> id_of(const SandboxHandle& sandbox);

    /// Conflict: it is stopped; NotFound: it is gone. Never starts one.
    [[nodiscard]] Result<Session> session(const std::string& id);
    /// What a create or a connect has just told.
    [[nodiscard]] Result<Session> remember(const e2b::SandboxView& view);
    void forget(const std::string& id);

    /// `work(const Session&)`. When the sandbox turns out not to run, why that is takes the place of its
    /// error; when it does run after all, it is tried once more: nothing has reached it.
    template <class F> auto with(const std::string& id, F work) -> std::invoke_result_t<F, const Session&>
    {
        for (bool last = false;; last = true) {
            auto session = this->session(id);
            if (!session) return std::unexpected(std::move(session).error());
            auto done = work(std::as_const(*session));
            if (done || !not_running(done.error()) || last) return done;
            forget(id);
        }
    }

    /// The same for what cannot be done again: its source is read.
    template <class F> auto once(const std::string& id, F work) -> std::invoke_result_t<F, const Session&>
    {
        auto session = this->session(id);
        if (!session) return std::unexpected(std::move(session).error());
        auto done = work(std::as_const(*session));
        if (done || !not_running(done.error())) return done;
        forget(id);
        if (auto why = this->session(id); !why) return std::unexpected(std::move(why).error());
        return done;
    }

private:
    Api api_;
    Envd envd_;
    std::mutex mutex_;
    std::map<std::string, Session> sessions_;
};

} // namespace berth::e2b_client

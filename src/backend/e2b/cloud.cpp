#include "backend/e2b/cloud.hpp"

#include "backend/e2b/labels.hpp"
#include "base/ids.hpp"
#include "base/strings.hpp"
#include "keeping/native.hpp"

namespace berth::e2b_client {

Result<std::string> Cloud::id_of(const SandboxHandle& sandbox)
{
    if (e2b::is_cloud_id(sandbox.native)) return sandbox.native;
    // Whoever made it may not have heard how the cloud calls it.
    if (!keeping::is_native(sandbox.native))
        return fail(Code::Invalid, "'{}' is not the name of a sandbox of E2B", printable(sandbox.native, 60));
    BERTH_TRY(const auto all, api_.list(filter_sandbox(keeping::sandbox_of(sandbox.native))));
    if (all.empty()) return fail(Code::NotFound, "the E2B server has no sandbox {}", sandbox.native);
    return all.front().id;
}

Result<Session> Cloud::remember(const e2b::SandboxView& view)
{
    BERTH_TRY(auto session, envd_.session(view.id, view.token, view.domain));
    const auto identity = identity_of(view.metadata);
    if (identity) {
        session.user = identity->user;
        session.workdir = identity->workdir;
    }
    const std::scoped_lock lock(mutex_);
    return sessions_[view.id] = std::move(session);
}

void Cloud::forget(const std::string& id)
{
    const std::scoped_lock lock(mutex_);
    sessions_.erase(id);
}

Result<Session> Cloud::session(const std::string& id)
{
    {
        const std::scoped_lock lock(mutex_);
        if (const auto at = sessions_.find(id); at != sessions_.end()) return at->second;
    }
    BERTH_TRY(auto view, api_.get(id));
    if (view.paused) return fail(Code::Conflict, "sandbox {} is stopped", id);
    // A fresh token, and time enough for what comes. Its metadata is told by the other call alone.
    BERTH_TRY(const auto fresh, api_.connect(id));
    view.token = fresh.token;
    view.domain = fresh.domain;
    return remember(view);
}

} // namespace berth::e2b_client

#pragma once

#include "backend/docker/life.hpp"
#include "keeping/account.hpp"
#include "keeping/relayed_execs.hpp"

/// Beginnings and ends of instances on an engine of another machine: nothing of this one is shown in them,
/// and nobody of ours enters them.
namespace berth::docker {

[[nodiscard]] Result<SandboxHandle> make_far(const Where& where, const CreateRequest& request);
[[nodiscard]] Status destroy_far(const Where& where, keeping::RelayedExecs& execs, const std::string& native);
[[nodiscard]] Status stop_far(const Where& where, keeping::RelayedExecs& execs, const std::string& native,
                              std::chrono::milliseconds grace);
[[nodiscard]] Result<Started> start_far(const Where& where, const std::string& native);

/// What an engine of another machine holds.
[[nodiscard]] EngineFacts far_facts(EngineFacts facts);

/// Who `user` is inside; empty: the sandbox's own.
[[nodiscard]] Result<keeping::Account> far_account(const Engine& engine, const Instance& instance,
                                                   const std::string& user);

} // namespace berth::docker

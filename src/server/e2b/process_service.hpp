#pragma once

#include "server/e2b/envd.hpp"

namespace berth::e2b {

/// envd's service process.Process.
class ProcessService {
public:
    explicit ProcessService(Sandboxes& sandboxes) : sandboxes_(sandboxes) {}

    /// False: there is no such method.
    Task<bool> answer(EnvdCall& call, std::string_view method);
    /// What an earlier server started and has a deadline for is minded again.
    Task<void> begin();

private:
    using ProcessPtr = std::shared_ptr<Process>; ///< shared: a stream outlives its place in the table
    using Found = std::expected<ProcessPtr, connect::Failure>;
    using Outcome = std::optional<connect::Failure>; ///< nothing: it was done

    Task<void> start(EnvdCall& call);
    Task<void> connect_to(EnvdCall& call);
    Task<void> stream_input(EnvdCall& call);
    Task<Outcome> unary(EnvdCall& call, std::string_view method, std::string& answer);

    Task<Found> launch(EnvdCall& call, StartRequest request);
    Task<Outcome> send_input(EnvdCall& call, ProcessPtr process, ProcessInput input);
    Task<Found> select(EnvdCall& call, const Selector& selector);
    Task<void> recall(EntryPtr entry);
    void forget_ended();

    Sandboxes& sandboxes_;
    SteadyTime next_look_{}; ///< for what has ended long ago
};

} // namespace berth::e2b

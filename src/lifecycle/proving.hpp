#pragma once

#include <string>
#include <vector>

#include "lifecycle/lifecycle.hpp"
#include "prove/receipt.hpp"

namespace berth {

/// Proofs of the policies of sandboxes, with their receipts in the ledger: a line that is never changed and
/// outlives its sandbox.
class Proving {
public:
    /// Borrowed, all of it. `data` is the state directory.
    Proving(Lifecycle& lifecycle, BlockingPool& pool, std::string data)
        : lifecycle_(lifecycle), pool_(pool), data_(std::move(data))
    {
    }

    /// Makes the sandbox usable and tries its policy out from inside. A receipt that says "not held" is an
    /// answer, not an error.
    Task<Result<prove::Receipt>> prove(std::string ref);
    /// Lifecycle::acquire(), but the sandbox is handed out only when its policy holds: else a new one is
    /// destroyed before it has taken its key from anybody, any other left as it is, and the error
    /// (Unsupported) names the probe.
    Task<Result<Acquired>> acquire(AcquireRequest request);
    /// Of one sandbox, the oldest first, as documents.
    Task<Result<std::vector<json::Object>>> receipts(std::string ref);

private:
    /// Of one that is usable.
    Task<Result<prove::Receipt>> prove_now(SandboxRecord record);
    Task<Status> demand(SandboxRecord record);

    Lifecycle& lifecycle_;
    BlockingPool& pool_;
    std::string data_;
};

} // namespace berth

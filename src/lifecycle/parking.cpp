// Instances made ahead: of a sandbox that does not exist yet, so nothing of them is in the store. Until one
// is claimed the backend alone knows of it.

#include "core/parking.hpp"

#include "base/ids.hpp"
#include "lifecycle/lifecycle.hpp"
#include "lifecycle/lot.hpp"

namespace berth {

Task<Result<Parking*>> Lifecycle::parking(std::string name)
{
    BERTH_CO_TRY(auto* const where, co_await backend(name));
    auto* const parks = dynamic_cast<Parking*>(where);
    if (parks == nullptr)
        co_return fail(Code::Unsupported, "backend {} makes no sandboxes before they are asked for", name);
    co_return parks;
}

Task<Status> Lifecycle::clear_parked(std::string name)
{
    BERTH_CO_TRY(auto* const where, co_await parking(std::move(name)));
    co_return co_await where->clear_parked();
}

Task<Result<std::string>> Lifecycle::park(std::string name, SandboxSpec shape, std::string snapshot)
{
    BERTH_CO_TRY(auto* const where, co_await parking(name));
    CreateRequest request(std::move(shape));
    const std::string id = make_sandbox_id(clock_);
    request.spec.id = id;
    // Whoever claims it gives it a key and the hashes.
    request.labels = {.key = {},
                      .spec_hash = {},
                      .exo_hash = {},
                      .owner = store_.owner(),
                      .created = clock_.now(),
                      .generation = 1};
    if (!snapshot.empty()) {
        BERTH_CO_TRY(auto record, co_await find_snapshot(std::move(snapshot)));
        BERTH_CO_TRY(request.from, co_await source_of(std::move(record), std::move(name)));
    }
    BERTH_CO_CHECK(co_await where->park(std::move(request)));
    co_return id;
}

Task<Status> Lifecycle::unpark(std::string name, std::string id)
{
    BERTH_CO_TRY(auto* const where, co_await backend(std::move(name)));
    const SandboxHandle parked{.sandbox = id, .native = id};
    co_return co_await where->destroy(parked);
}

std::string Lifecycle::new_id(const std::string& backend, const SandboxSpec& spec,
                              const std::string& snapshot) const
{
    auto parked = lot_ != nullptr ? lot_->take(backend, spec, snapshot) : std::nullopt;
    return parked ? *std::move(parked) : make_sandbox_id(clock_);
}

void Lifecycle::give_back(const std::string& id) const
{
    if (lot_ != nullptr) lot_->give_back(id);
}

} // namespace berth

// Instances made ahead, and what becomes of them.

#include "backend/local/local_backend.hpp"
#include "backend/local/shared.hpp"
#include "base/log.hpp"
#include "keeping/native.hpp"

namespace berth::local {

Sandbox::Options LocalBackend::options_of(const CreateRequest& request)
{
    Sandbox::Options options;
    options.labels = request.labels;
    options.from = request.from;
    return options;
}

std::optional<Parked> LocalBackend::take_parked(const std::string& native)
{
    const std::scoped_lock lock(parked_mutex_);
    const auto at = parked_.find(native);
    if (at == parked_.end()) return std::nullopt;
    std::optional<Parked> taken(std::move(at->second));
    parked_.erase(at);
    return taken;
}

/// Nothing: it does not fit after all, and is gone.
std::optional<Sandbox> LocalBackend::claim(Parked parked, const CreateRequest& request)
{
    auto claimed = std::move(parked).claim(request.spec, options_of(request));
    if (claimed) return *std::move(claimed);
    log::info("a parked sandbox could not be used", {{.name = "sandbox", .value = request.spec.id},
                                                     {.name = "why", .value = claimed.error().line()}});
    return std::nullopt;
}

Task<Status> LocalBackend::park(CreateRequest request)
{
    co_return co_await pool_.call([&]() -> Status {
        const std::string native = native_name(request.spec.id, request.labels.generation);
        auto parked = Parked::make(state_, request.spec, options_of(request));
        if (!parked) return std::unexpected(std::move(parked).error().while_doing("parking a sandbox"));
        const std::scoped_lock lock(parked_mutex_);
        parked_.emplace(native, *std::move(parked));
        return {};
    });
}

Task<Status> LocalBackend::clear_parked()
{
    co_return co_await pool_.call([&]() -> Status {
        BERTH_TRY([[maybe_unused]] const auto removed, remove_left_parked(state_, false));
        return {};
    });
}

} // namespace berth::local

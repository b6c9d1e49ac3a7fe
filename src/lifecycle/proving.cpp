#include "lifecycle/proving.hpp"

#include <boost/asio/this_coro.hpp>

#include "lifecycle/events.hpp"
#include "prove/prove.hpp"

namespace berth {

namespace {

constexpr std::string_view kProved = "berth.policy_proved";
constexpr std::size_t kMostReceipts = 100; ///< of one sandbox at a time
constexpr auto kLockPatience = std::chrono::seconds(60);

/// A sandbox did not stand the proof for which it had taken the key: whoever had it has it again, in one
/// step. False: there is nobody to give it to.
Result<bool> give_key_back(Store& store, const std::string& failed_id, const std::string& old_id)
{
    BERTH_TRY(auto failed, store.find(failed_id));
    BERTH_TRY(auto old, store.find(old_id));
    if (!failed || !old || old->superseded_by != failed_id || old->state == State::Destroyed) return false;
    const auto now = system_clock().now();
    failed->superseded_by = old_id;
    old->superseded_by.clear();
    failed->changed = old->changed = now;
    const std::vector<LedgerEvent> told{events::other(*failed, "berth.sandbox_superseded", old_id)};
    const auto done = store.replace(*std::move(failed), *std::move(old), told);
    if (!done) return std::unexpected(done.error());
    return true;
}

} // namespace

Task<Result<prove::Receipt>> Proving::prove(std::string ref)
{
    BERTH_CO_TRY(const auto used, co_await lifecycle_.use(std::move(ref)));
    const SandboxRecord& record = used.record;
    BERTH_CO_TRY(const auto alone, KeyLock::try_take(data_ + "/lock", "prove:" + record.id()));
    if (!alone) co_return fail(Code::Conflict, "a proof of {} is under way", record.id());
    BERTH_CO_TRY(auto* const where, co_await lifecycle_.backend(record.backend));
    const prove::Wish wish{.sandbox = record.id(), .generation = record.generation, .data = data_};
    auto receipt = co_await prove::prove(*where, Lifecycle::handle(record), record.spec, wish);
    if (!receipt)
        co_return std::unexpected(
            std::move(receipt).error().while_doing(fmt::format("proving the policy of {}", record.id())));
    auto event = events::other(record, kProved);
    for (auto& member : prove::to_json(*receipt)) event.data[member.key()] = std::move(member.value());
    const auto written = co_await pool_.call([&] { return lifecycle_.store().append({event}); });
    if (!written) co_return std::unexpected(written.error());
    co_return receipt;
}

Task<Result<Acquired>> Proving::acquire(AcquireRequest request)
{
    const std::string key = request.key;
    std::optional<SandboxRecord> before;
    if (!key.empty()) {
        BERTH_CO_TRY(before, co_await pool_.call([&] { return lifecycle_.store().find_key(key); }));
    }
    BERTH_CO_TRY(auto acquired, co_await lifecycle_.acquire(std::move(request)));
    const std::string id = acquired.record.id();
    auto receipt = co_await prove(id);
    if (receipt && receipt->held()) co_return acquired;
    Error error = receipt
                      ? Error{.code = Code::Unsupported,
                              .message = fmt::format("the policy does not hold here: {}", receipt->failure())}
                      : std::move(receipt).error();
    std::string what = fmt::format("handing out {}, which is left as it was", id);
    if (acquired.tier == Tier::Fresh) {
        if (before) {
            BERTH_CO_TRY(const auto held,
                         co_await KeyLock::take(data_ + "/lock", "key:" + key, kLockPatience));
            BERTH_CO_TRY(const bool back, co_await pool_.call([&] {
                return give_key_back(lifecycle_.store(), id, before->id());
            }));
            if (back)
                error = std::move(error).while_doing(fmt::format("giving the key back to {}", before->id()));
        }
        const auto gone = co_await lifecycle_.destroy(id);
        what = gone
                   ? fmt::format("handing out {}, which was destroyed", id)
                   : fmt::format("handing out {}, which could not be destroyed: {}", id, gone.error().line());
    }
    co_return std::unexpected(std::move(error).while_doing(std::move(what)));
}

Task<Result<std::vector<json::Object>>> Proving::receipts(std::string ref)
{
    BERTH_CO_TRY(const auto record, co_await lifecycle_.find(std::move(ref)));
    std::vector<json::Object> out;
    LedgerQuery query{.sandbox = record.id(), .type = std::string(kProved)};
    for (;;) {
        BERTH_CO_TRY(auto page, co_await pool_.call([&] { return lifecycle_.store().ledger(query); }));
        const bool last = page.size() < query.limit;
        for (auto& event : page) {
            query.after = event.sequence;
            event.data.erase("sandbox_id");
            out.push_back(std::move(event.data));
        }
        if (out.size() > kMostReceipts)
            out.erase(out.begin(), out.end() - static_cast<std::ptrdiff_t>(kMostReceipts));
        if (last) co_return out;
    }
}

} // namespace berth

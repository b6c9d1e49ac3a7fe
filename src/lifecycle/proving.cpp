#include "lifecycle/proving.hpp"

#include <boost/asio/this_coro.hpp>

#include "lifecycle/borrowed.hpp"
#include "lifecycle/events.hpp"
#include "prove/prove.hpp"

namespace berth {

namespace {

constexpr std::string_view kProved = "berth.policy_proved";
constexpr std::size_t kMostReceipts = 100; ///< of one sandbox at a time

/// Nobody asked us for rules of one that somebody else made: there is nothing that could hold.
Status refuse_borrowed(const SandboxRecord& record)
{
    if (!is_borrowed(record)) return {};
    return fail(Code::Denied, "sandbox {} is {}, so there is nothing to prove", record.id(), kNoRules);
}

} // namespace

Task<Result<prove::Receipt>> Proving::prove(std::string ref)
{
    BERTH_CO_TRY(const auto record, co_await lifecycle_.find(ref));
    BERTH_CO_CHECK(refuse_borrowed(record));
    BERTH_CO_TRY(auto used, co_await lifecycle_.use(std::move(ref)));
    co_return co_await prove_now(std::move(used.record));
}

Task<Result<prove::Receipt>> Proving::prove_now(SandboxRecord record)
{
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

Task<Status> Proving::demand(SandboxRecord record)
{
    BERTH_CO_TRY(const auto receipt, co_await prove_now(std::move(record)));
    if (receipt.held()) co_return Status{};
    co_return fail(Code::Unsupported, "the policy does not hold here: {}", receipt.failure());
}

Task<Result<Acquired>> Proving::acquire(AcquireRequest request)
{
    bool judged = false;
    request.accept = [&](SandboxRecord record) -> Task<Status> {
        judged = true;
        return demand(std::move(record));
    };
    BERTH_CO_TRY(auto acquired, co_await lifecycle_.acquire(std::move(request)));
    if (judged) co_return acquired;
    const auto held = co_await demand(acquired.record);
    if (held) co_return acquired;
    co_return std::unexpected(
        Error(held.error())
            .while_doing(fmt::format("handing out {}, which is left as it was", acquired.record.id())));
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

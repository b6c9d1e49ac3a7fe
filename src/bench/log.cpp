// The store under load and under weight: what a durable line of the ledger costs when many write at once,
// and that neither listing nor finding grows with what the store remembers.

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/ids.hpp"
#include "base/io.hpp"
#include "base/scope_exit.hpp"
#include "bench/bench.hpp"
#include "bench/measure.hpp"
#include "bench/own_data.hpp"
#include "berth/berth.hpp"
#include "store/sqlite/sqlite_store.hpp"

namespace berth::bench {

namespace {

constexpr std::size_t kWriters = 32;
constexpr std::size_t kRowsEach = 16;
constexpr std::size_t kFew = 100;
constexpr std::size_t kMany = 10'000;
constexpr const char* kKey = "bench";

LedgerEvent line(std::size_t number)
{
    return {.sandbox = "sbx_bench",
            .type = "bench",
            .data = {{"number", number}, {"text", std::string(100, 'x')}}};
}

/// The reference: a row, then the disk, then the next row.
Result<double> plain_rows(const std::string& data)
{
    constexpr std::size_t kRows = 64;
    const UniqueFd file(::open(data.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (!file) return fail_errno("making a file in {}", data);
    const std::string row = json::dump(line(0).data) + "\n";
    const Stopwatch watch;
    for (std::size_t i = 0; i < kRows; ++i) {
        BERTH_CHECK(write_all(file.get(), row));
        if (::fdatasync(file.get()) != 0) return fail_errno("syncing a row");
    }
    return watch.nanoseconds() / kRows;
}

/// Each thread waits for its own row to be on disk before it writes the next.
Result<double> appends(Store& store, std::size_t writers)
{
    std::atomic<bool> failed = false;
    const Stopwatch watch;
    std::vector<std::thread> threads;
    for (std::size_t w = 0; w < writers; ++w)
        threads.emplace_back([&] {
            for (std::size_t i = 0; i < kRowsEach; ++i)
                if (!store.append({line(i)})) failed = true;
        });
    for (auto& thread : threads) thread.join();
    if (failed) return fail(Code::Internal, "an event could not be appended");
    return watch.nanoseconds() / static_cast<double>(writers * kRowsEach);
}

Result<Table> durable_appends(Context& context)
{
    Table table{.name = "log, a durable row"};
    BERTH_TRY(const auto data, OwnData::make(context, "log"));
    BERTH_TRY(const auto store, store::SqliteStore::open(data.path() + "/store.db"));
    constexpr const char* kPlain = "one row, one fdatasync";
    const std::string crowd = fmt::format("ledger, {} writers", kWriters);
    std::vector<Case> cases{{.name = kPlain, .run = [&] { return plain_rows(data.path()); }},
                            {.name = "ledger, one writer", .run = [&] { return appends(*store, 1); }},
                            {.name = crowd, .run = [&] { return appends(*store, kWriters); }}};
    table.claims.push_back({.subject = crowd,
                            .reference = kPlain,
                            .relation = Relation::Lead,
                            .bar = Bar{.limit = 5, .stretch = 10}});
    table.claims.push_back(
        {.subject = "ledger, one writer", .reference = kPlain, .relation = Relation::Cost});
    measure(context, table, std::move(cases), {.rounds = std::max(context.options().rounds / 20, 2u)});
    return table;
}

/// A program with a sandbox under a key and `others` records beside it, living and dead in turn.
Result<std::unique_ptr<Berth>> open_with(const std::string& data, std::size_t others)
{
    BERTH_TRY(auto opened, Berth::open({.data = data, .threads = 2}));
    AcquireRequest wish;
    wish.spec.policy = *policy::preset("sandbox");
    wish.key = kKey;
    BERTH_TRY(const auto made, opened->run(opened->lifecycle().acquire(wish)));
    std::vector<std::thread> threads;
    std::atomic<bool> failed = false;
    for (std::size_t w = 0; w < kWriters; ++w)
        threads.emplace_back([&, w] {
            for (std::size_t i = w; i < others; i += kWriters) {
                SandboxRecord record = made.record;
                record.spec.id = make_sandbox_id(system_clock());
                record.key = fmt::format("other-{}", i);
                record.native = record.spec.id;
                record.state = i % 2 == 0 ? State::Stopped : State::Destroyed;
                if (!opened->store().insert(record, {})) failed = true;
            }
        });
    for (auto& thread : threads) thread.join();
    if (failed) return fail(Code::Internal, "a record could not be inserted");
    return opened;
}

Result<double> list_page(Berth& berth)
{
    const Stopwatch watch;
    BERTH_TRY(const auto page, berth.store().list({.limit = kFew / 2}));
    const double taken = watch.nanoseconds();
    if (page.size() != kFew / 2) return fail(Code::Internal, "{} records in a page", page.size());
    return taken;
}

Result<double> find_key(Berth& berth)
{
    const Stopwatch watch;
    BERTH_TRY(const auto found, berth.store().find_key(kKey));
    const double taken = watch.nanoseconds();
    if (!found) return fail(Code::Internal, "the key is not found");
    return taken;
}

Result<double> resume(Berth& berth)
{
    const Stopwatch watch;
    BERTH_TRY(const auto got, berth.run(berth.lifecycle().try_resume(kKey)));
    const double taken = watch.nanoseconds();
    if (!got || got->tier != Tier::Attached) return fail(Code::Internal, "the key was not resumed");
    return taken;
}

Result<Table> weight(Context& context)
{
    Table table{.name = fmt::format("log, {} records against {}", kMany, kFew)};
    BERTH_TRY(const auto small, OwnData::make(context, "few"));
    BERTH_TRY(const auto large, OwnData::make(context, "many"));
    context.progress(fmt::format("log: filling a store with {} records", kMany));
    BERTH_TRY(const auto few, open_with(small.path(), kFew));
    BERTH_TRY(const auto many, open_with(large.path(), kMany));
    const ScopeExit gone([&] {
        for (auto* one : {few.get(), many.get()}) (void)one->run(one->lifecycle().destroy(kKey));
    });
    struct Subject {
        const char* name;
        Result<double> (*run)(Berth&);
    };
    std::vector<Case> cases;
    for (const Subject subject : {Subject{"ls, a page", list_page}, Subject{"find by key", find_key},
                                  Subject{"resume by key", resume}}) {
        const std::string light = fmt::format("{}, {} records", subject.name, kFew);
        const std::string heavy = fmt::format("{}, {} records", subject.name, kMany);
        cases.push_back({.name = light, .run = [&few, subject] { return subject.run(*few); }});
        cases.push_back({.name = heavy, .run = [&many, subject] { return subject.run(*many); }});
        table.claims.push_back(
            {.subject = heavy, .reference = light, .bar = Bar{.limit = 1.5, .stretch = 1.2}});
    }
    measure(context, table, std::move(cases), {.rounds = context.options().rounds});
    return table;
}

} // namespace

Result<std::vector<Table>> bench_log(Context& context)
{
    std::vector<Table> tables;
    BERTH_TRY(auto rows, durable_appends(context));
    tables.push_back(std::move(rows));
    BERTH_TRY(auto heavy, weight(context));
    tables.push_back(std::move(heavy));
    return tables;
}

} // namespace berth::bench

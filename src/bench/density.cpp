#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <thread>

#include "base/io.hpp"
#include "base/strings.hpp"
#include "bench/bench.hpp"
#include "bench/kept.hpp"
#include "bench/measure.hpp"

namespace berth::bench {

namespace {

using local::Pools;
using local::Sandbox;

constexpr const char* kEarly = "create, around the 100th";
constexpr const char* kLate = "create, the last 100";
constexpr const char* kMemory = "memory of an idle sandbox, no netns";
constexpr const char* kMemoryNet = "memory of an idle sandbox, netns";
constexpr const char* kDescriptors = "descriptors for an idle sandbox";
constexpr std::size_t kWindow = 100;
constexpr std::uint64_t kDescriptorsEach = 6; ///< as many as one may need
constexpr std::uint64_t kSpareDescriptors = 500;

/// What the kernel holds for good, in bytes. Not the memory of processes: others' come and go by far more
/// than ours weigh, so keepers are asked one by one.
double kernel_memory()
{
    const auto text = read_file("/proc/meminfo");
    if (!text) return 0;
    // Kernel stacks are not named: where they are mapped, as everywhere today, they are in VmallocUsed.
    static const std::set<std::string, std::less<>> counted{
        "SUnreclaim:", "PageTables:", "Percpu:", "Shmem:", "VmallocUsed:"};
    double sum = 0;
    for (const auto& line : split(*text, '\n')) {
        const auto colon = line.find(':');
        if (colon == std::string::npos || !counted.contains(line.substr(0, colon + 1))) continue;
        sum += std::strtod(line.c_str() + colon + 1, nullptr) * 1024;
    }
    return sum;
}

/// Pages a keeper has for itself.
Result<double> keeper_memory(pid_t pid)
{
    BERTH_TRY(const auto text, read_file(fmt::format("/proc/{}/status", pid)));
    const auto at = text.find("RssAnon:");
    if (at == std::string::npos) return fail(Code::Internal, "/proc/{}/status tells no RssAnon", pid);
    return std::strtod(text.c_str() + at + 8, nullptr) * 1024;
}

std::size_t open_descriptors()
{
    std::error_code error;
    const std::filesystem::directory_iterator all("/proc/self/fd", error);
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

/// Asks for `wanted` descriptors, as root beyond the hard limit too; answers how many we may have.
std::uint64_t raise_descriptors(std::uint64_t wanted)
{
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_max < wanted) {
        const rlimit more{.rlim_cur = wanted, .rlim_max = wanted};
        if (::setrlimit(RLIMIT_NOFILE, &more) == 0) return wanted;
    }
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    ::getrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_cur;
}

/// Share of all processors' time that was idle in the last moment.
double idle_share()
{
    const auto times = [] {
        std::pair<double, double> idle_and_all;
        const auto words = split(read_file("/proc/stat").value_or("").substr(0, 400), ' ');
        for (std::size_t i = 2; i < words.size() && i < 10; ++i) { // "cpu", "", user, nice, system, idle, …
            const double ticks = std::strtod(words[i].c_str(), nullptr);
            idle_and_all.second += ticks;
            if (i == 5) idle_and_all.first = ticks;
        }
        return idle_and_all;
    };
    const auto before = times();
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
    const auto after = times();
    const double all = after.second - before.second;
    return all > 0 ? (after.first - before.first) / all : 1;
}

/// The kernel goes on tearing down thousands of namespaces for seconds after their last process.
void wait_for_quiet(Context& context)
{
    for (int i = 0; i < 80 && !context.interrupted() && idle_share() < 0.9; ++i)
        context.progress("density: waiting until the kernel has tidied up");
}

/// Sandboxes that live at the same time, and what it took to make each.
class Population {
public:
    Population(Context& context, policy::Network network, sys::Spawner spawner)
        : context_(&context), network_(network), spawner_(std::move(spawner)),
          pools_(context.state(), {.identities = 1, .networks = network == policy::Network::Off ? 1u : 0u})
    {
    }

    Status grow(std::size_t count)
    {
        const std::size_t target = living_.size() + count;
        while (living_.size() < target && !context_->interrupted()) {
            if (living_.size() % 100 == 0)
                context_->progress(fmt::format("density: {} sandboxes of {}", living_.size(), target));
            auto spec = context_->spec();
            spec.policy.network = network_;
            BERTH_CHECK(pools_.refill());
            const Stopwatch watch;
            auto made = make_kept(*context_, spec,
                                  {.storage = Sandbox::Storage::Memory,
                                   .pools = &pools_,
                                   .spawner = &spawner_,
                                   .groups = false});
            if (!made)
                return std::unexpected(std::move(made).error().while_doing(
                    fmt::format("making sandbox {} of {}", living_.size(), target)));
            taken_.push_back(watch.nanoseconds());
            living_.push_back(*std::move(made));
        }
        return {};
    }

    /// One command in each: what was never used proves nothing.
    Status use_all()
    {
        for (std::size_t i = 0; i < living_.size() && !context_->interrupted(); ++i) {
            if (i % 100 == 0) context_->progress(fmt::format("density: {} of {} used", i, living_.size()));
            BERTH_CHECK(exec_and_wait(*living_[i], exec_of({kTrue})));
        }
        return {};
    }

    [[nodiscard]] std::vector<double> taken(std::size_t from, std::size_t count) const
    {
        const auto first = taken_.begin() + static_cast<std::ptrdiff_t>(from);
        return {first, first + static_cast<std::ptrdiff_t>(count)};
    }
    [[nodiscard]] Result<double> typical_keeper() const
    {
        std::vector<double> sizes;
        for (const auto& kept : living_) {
            BERTH_TRY(const double size, keeper_memory(kept->keeper_pid()));
            sizes.push_back(size);
        }
        return median(sizes);
    }
    [[nodiscard]] std::size_t size() const noexcept { return living_.size(); }

private:
    Context* context_;
    policy::Network network_;
    sys::Spawner spawner_; ///< as a daemon would: it has few descriptors, and a child gets a copy of all
    Pools pools_;
    std::vector<Kept> living_;
    std::vector<double> taken_;
};

/// Grows by batches and takes the middle of what each cost the kernel: others may allocate meanwhile.
Result<double> idle_memory(Population& population, std::size_t batches, std::size_t batch)
{
    std::vector<double> costs;
    for (std::size_t i = 0; i < batches; ++i) {
        const double before = kernel_memory();
        BERTH_CHECK(population.grow(batch));
        costs.push_back((kernel_memory() - before) / static_cast<double>(batch));
    }
    BERTH_TRY(const double keeper, population.typical_keeper());
    return median(costs) + keeper;
}

Status many(Context& context, Table& table, std::size_t count)
{
    const auto put = [&](const char* name, std::vector<double> samples) {
        const auto found = std::ranges::find(table.series, name, &Series::name);
        found->repeats.push_back(std::move(samples));
    };
    BERTH_TRY(auto spawner, sys::Spawner::start());
    const std::size_t before = open_descriptors();
    Population population(context, policy::Network::Host, std::move(spawner));
    BERTH_CHECK(population.grow(kWindow / 2)); // the first ones make what all of them share
    BERTH_TRY(const double memory, idle_memory(population, (count - kWindow / 2) / kWindow, kWindow));
    if (context.interrupted()) return {};
    put(kEarly, population.taken(kWindow / 2, kWindow));
    put(kLate, population.taken(population.size() - kWindow, kWindow));
    put(kMemory, {memory});
    put(kDescriptors,
        {static_cast<double>(open_descriptors() - before) / static_cast<double>(population.size())});
    return population.use_all();
}

Status with_network(Context& context, Table& table, std::size_t count)
{
    BERTH_TRY(auto spawner, sys::Spawner::start());
    Population population(context, policy::Network::Off, std::move(spawner));
    BERTH_CHECK(population.grow(kWindow / 2));
    BERTH_TRY(const double memory,
              idle_memory(population, std::max<std::size_t>(count / kWindow, 1), kWindow));
    std::ranges::find(table.series, kMemoryNet, &Series::name)->repeats.push_back({memory});
    return {};
}

} // namespace

Result<std::vector<Table>> bench_density(Context& context)
{
    // 200 rounds make 3000 sandboxes; fewer than 300 would have no late ones.
    std::size_t count = std::clamp<std::size_t>(context.options().rounds * std::size_t{15}, 300, 3000);
    Table table{.name = "density"};
    const std::uint64_t allowed = raise_descriptors(count * kDescriptorsEach + kSpareDescriptors);
    if (allowed < count * kDescriptorsEach + kSpareDescriptors) {
        count =
            std::max<std::size_t>((allowed - std::min(allowed, kSpareDescriptors)) / kDescriptorsEach, 300);
        table.skipped.push_back({.name = fmt::format("more than {} sandboxes", count),
                                 .reason = fmt::format("at most {} open files", allowed),
                                 .remedy = "ulimit -Hn 65536"});
    }
    table.name = fmt::format("density, {} sandboxes", count);
    for (const auto* name : {kEarly, kLate}) table.series.push_back({.name = name, .repeats = {}});
    for (const auto* name : {kMemory, kMemoryNet})
        table.series.push_back({.name = name, .unit = Unit::Bytes, .repeats = {}});
    table.series.push_back({.name = kDescriptors, .unit = Unit::Count, .repeats = {}});
    const auto amount = Relation::Amount;
    table.claims = {
        {.subject = kLate, .reference = kEarly, .bar = Bar{.limit = 1.6, .stretch = 1.2}},
        {.subject = kMemory, .relation = amount, .bar = Bar{.limit = 220 * 1024, .stretch = 130 * 1024}},
        {.subject = kMemoryNet, .relation = amount, .bar = Bar{.limit = 520 * 1024, .stretch = 350 * 1024}},
        {.subject = kDescriptors, .relation = amount, .bar = Bar{.limit = 3, .stretch = 2}}};
    for (unsigned i = 0; i < context.options().repeats && !context.interrupted(); ++i) {
        wait_for_quiet(context);
        auto done = many(context, table, count);
        if (done) done = with_network(context, table, count / 6);
        if (!done) {
            table.problems.push_back(done.error().line());
            break;
        }
    }
    return std::vector{std::move(table)};
}

} // namespace berth::bench

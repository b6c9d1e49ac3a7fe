#include <cmath>

#include "base/strings.hpp"
#include "policy/document_read.hpp"

namespace berth::policy {

namespace {

// Sizes pass through a double; up to here each is exact, so that what is shown is what is held.
constexpr Bytes kMaxSize{1ull << 53};
// The kernel's own bounds: PID_MAX_LIMIT, and the largest fs.nr_open.
constexpr std::int64_t kMaxPids = 1 << 22;
constexpr std::int64_t kMaxOpenFiles = 1 << 30;
// cpu.max takes a quota of at least 1 ms in the usual period of 100 ms.
constexpr double kMinCpus = 0.01;
constexpr double kMaxCpus = 8192;

Status read_size(const json::Reader& at, std::optional<Bytes>& out)
{
    BERTH_TRY(const auto text, at.string());
    const auto size = parse_bytes(text);
    if (!size) return at.refuse("{}", size.error().message);
    if (size->count == 0) return at.refuse("a limit of nothing");
    if (*size > kMaxSize) return at.refuse("over {}", show(kMaxSize));
    out = *size;
    return {};
}

Status read_count(const json::Reader& at, std::int64_t high, std::optional<std::uint64_t>& out)
{
    if (at.value().is_string()) {
        BERTH_TRY(const auto word, at.string());
        if (word != kUnlimited) return at.refuse("expected a whole number or \"{}\"", kUnlimited);
        out.reset();
        return {};
    }
    BERTH_TRY(const auto number, at.integer(1, high));
    out = static_cast<std::uint64_t>(number);
    return {};
}

Status read_cpus(const json::Reader& at, std::optional<double>& out)
{
    BERTH_TRY(const double cpus, at.number());
    if (!(cpus >= kMinCpus && cpus <= kMaxCpus))
        return at.refuse("out of range: from {} to {}", kMinCpus, kMaxCpus);
    // Parsers differ in the last bit of a fraction; thousandths are all anybody means.
    const double thousandths = std::round(cpus * 1000);
    if (std::abs(cpus * 1000 - thousandths) > 1e-6) return at.refuse("finer than a thousandth of a CPU");
    out = thousandths / 1000;
    return {};
}

Status read_duration(const json::Reader& at, std::optional<std::chrono::nanoseconds>& out)
{
    BERTH_TRY(const auto text, at.string());
    const auto duration = parse_duration(text);
    if (!duration) return at.refuse("{}", duration.error().message);
    if (duration->count() == 0) return at.refuse("a limit of nothing");
    out = *duration;
    return {};
}

} // namespace

Status read_limits(const json::Reader& at, Policy& policy)
{
    Limits& limits = policy.limits;
    BERTH_CHECK(at.only({"memory", "cpus", "pids", "disk", "open_files", "wall_time"}));
    BERTH_TRY(const auto members, at.members());
    for (const auto& [name, value] : members) {
        if (name == "memory") BERTH_CHECK(read_size(value, limits.memory));
        if (name == "cpus") BERTH_CHECK(read_cpus(value, limits.cpus));
        if (name == "pids") BERTH_CHECK(read_count(value, kMaxPids, limits.pids));
        if (name == "disk") BERTH_CHECK(read_size(value, limits.disk));
        if (name == "open_files") BERTH_CHECK(read_count(value, kMaxOpenFiles, limits.open_files));
        if (name == "wall_time") BERTH_CHECK(read_duration(value, limits.wall_time));
    }
    return {};
}

} // namespace berth::policy

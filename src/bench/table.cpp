#include "bench/table.hpp"

#include <algorithm>

namespace berth::bench {

std::string_view to_string(Unit unit) noexcept
{
    switch (unit) {
    case Unit::Nanoseconds: return "ns";
    case Unit::BytesPerSecond: return "bytes/s";
    case Unit::Bytes: return "bytes";
    case Unit::Count: return "count";
    }
    return "count";
}

std::string_view to_string(Relation relation) noexcept
{
    switch (relation) {
    case Relation::Cost: return "cost";
    case Relation::Lead: return "lead";
    case Relation::Share: return "share";
    case Relation::Amount: return "amount";
    }
    return "cost";
}

std::string_view to_string(Verdict verdict) noexcept
{
    switch (verdict) {
    case Verdict::None: return "none";
    case Verdict::Pass: return "pass";
    case Verdict::Fail: return "fail";
    case Verdict::Inconclusive: return "inconclusive";
    }
    return "none";
}

std::vector<double> Series::all() const
{
    std::vector<double> out;
    for (const auto& repeat : repeats) out.insert(out.end(), repeat.begin(), repeat.end());
    return out;
}

const Series* Table::find(std::string_view wanted) const
{
    const auto found = std::ranges::find(series, wanted, &Series::name);
    return found == series.end() ? nullptr : &*found;
}

namespace {

bool small_is_good(Relation relation) { return relation == Relation::Cost || relation == Relation::Amount; }

bool meets(Relation relation, double value, double limit)
{
    return small_is_good(relation) ? value <= limit : value >= limit;
}

double compare(Relation relation, double subject, double reference)
{
    switch (relation) {
    case Relation::Amount: return subject;
    case Relation::Lead: return subject > 0 ? reference / subject : 0;
    case Relation::Cost:
    case Relation::Share: return reference > 0 ? subject / reference : 0;
    }
    return 0;
}

/// The sample nobody disturbed: the shortest time, the highest rate.
double best(const Series& series)
{
    const auto samples = series.all();
    if (samples.empty()) return 0;
    const auto [low, high] = std::ranges::minmax(samples);
    return series.unit == Unit::BytesPerSecond ? high : low;
}

std::optional<Judged> judge_one(const Table& table, const Claim& claim, double loosen)
{
    const Series* subject = table.find(claim.subject);
    const Series* reference = table.find(claim.reference);
    const bool alone = claim.relation == Relation::Amount;
    if (subject == nullptr || (reference == nullptr && !alone)) return std::nullopt;

    Judged judged{.claim = claim};
    std::vector<double> against;
    for (std::size_t i = 0; i < subject->repeats.size(); ++i) {
        if (subject->repeats[i].empty()) continue;
        double other = 0;
        if (!alone) {
            if (i >= reference->repeats.size() || reference->repeats[i].empty()) continue;
            other = summarize(reference->repeats[i]).p50;
            against.push_back(other);
        }
        judged.values.push_back(compare(claim.relation, summarize(subject->repeats[i]).p50, other));
    }
    if (judged.values.empty()) return std::nullopt;
    judged.value = median(judged.values);
    judged.reference_spread = spread(against);
    judged.at_best = compare(claim.relation, best(*subject), alone ? 0 : best(*reference));
    if (!claim.bar) return judged;

    auto& limit = judged.claim.bar->limit;
    limit = small_is_good(claim.relation) ? limit * loosen : limit / loosen;
    judged.stretch = claim.bar->stretch > 0 && meets(claim.relation, judged.value, claim.bar->stretch);
    if (judged.reference_spread > kMaxReferenceSpread)
        judged.verdict = Verdict::Inconclusive;
    else
        judged.verdict = meets(claim.relation, judged.value, limit) ? Verdict::Pass : Verdict::Fail;
    return judged;
}

} // namespace

std::vector<Judged> judge(const Table& table, double loosen)
{
    std::vector<Judged> out;
    for (const auto& claim : table.claims)
        if (auto judged = judge_one(table, claim, loosen)) out.push_back(*std::move(judged));
    return out;
}

} // namespace berth::bench

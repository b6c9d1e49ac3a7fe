#include <algorithm>

#include "base/strings.hpp"
#include "bench/report.hpp"

namespace berth::bench {

namespace {

constexpr std::size_t kMaxProblems = 20;
constexpr std::size_t kMaxReason = 160; ///< a refusal can name many things; --json has all of it

/// Columns a reader sees, not bytes: `×`, `≤` and `≥` are three bytes or two.
std::size_t width(std::string_view text)
{
    return static_cast<std::size_t>(
        std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string pad(std::string text, std::size_t columns)
{
    if (const std::size_t has = width(text); has < columns) text.append(columns - has, ' ');
    return text;
}

std::string value_text(const Judged& judged, const Table& table)
{
    switch (judged.claim.relation) {
    case Relation::Amount: {
        const Series* series = table.find(judged.claim.subject);
        return show(judged.value, series == nullptr ? Unit::Count : series->unit);
    }
    case Relation::Lead: return fmt::format("{:.2f} × faster than {}", judged.value, judged.claim.reference);
    case Relation::Cost:
    case Relation::Share: return fmt::format("{:.2f} × {}", judged.value, judged.claim.reference);
    }
    return {};
}

std::string best_text(const Judged& judged)
{
    return judged.claim.relation == Relation::Amount ? std::string{} : fmt::format("{:.2f}", judged.at_best);
}

std::string bar_text(const Judged& judged, const Table& table)
{
    if (!judged.claim.bar) return {};
    const auto relation = judged.claim.relation;
    const bool small = relation == Relation::Cost || relation == Relation::Amount;
    const double limit = judged.claim.bar->limit;
    const Series* series = table.find(judged.claim.subject);
    const std::string number = relation == Relation::Amount && series != nullptr
                                   ? show(limit, series->unit)
                                   : fmt::format("{:.3g}", limit);
    return fmt::format("{} {}", small ? "≤" : "≥", number);
}

std::string verdict_text(const Judged& judged)
{
    switch (judged.verdict) {
    case Verdict::None: return {};
    case Verdict::Pass: return judged.stretch ? "pass, stretch too" : "pass";
    case Verdict::Fail: return "FAIL";
    case Verdict::Inconclusive:
        return fmt::format("inconclusive: {} moved by {:.0f} %", judged.claim.reference,
                           judged.reference_spread * 100);
    }
    return {};
}

std::string trimmed(std::string line)
{
    while (!line.empty() && line.back() == ' ') line.pop_back();
    return line + "\n";
}

void render_table(std::string& out, const Table& table, double loosen)
{
    constexpr std::size_t kNumber = 11;
    constexpr std::size_t kBest = 9;
    const auto judged = judge(table, loosen);
    std::size_t names = std::max<std::size_t>(20, width(table.name));
    std::size_t values = 8;
    for (const auto& series : table.series) names = std::max(names, width(series.name));
    for (const auto& one : judged) values = std::max(values, width(value_text(one, table)));

    const auto head = [&](std::string_view text, std::size_t columns) {
        return pad(std::string(text), columns);
    };
    out += trimmed(fmt::format("{}  {}{}{}{}{}{}  {}{}  verdict", head(table.name, names + 2),
                               head("p50", kNumber), head("p90", kNumber), head("p95", kNumber),
                               head("p99", kNumber), head("min", kNumber), head("ratio", values),
                               head("at best", kBest), head("bar", kNumber)));
    for (const auto& series : table.series) {
        const auto s = summarize(series.all());
        std::string line = "  " + pad(series.name, names) + "  ";
        for (const double value : {s.p50, s.p90, s.p95, s.p99, s.min})
            line += pad(s.count == 0 ? "-" : show(value, series.unit), kNumber);
        bool told = false;
        for (const auto& one : judged) {
            if (one.claim.subject != series.name) continue;
            if (told) line = std::string(names + 4 + 5 * kNumber, ' ');
            out += trimmed(fmt::format("{}{}  {}{}  {}", line, pad(value_text(one, table), values),
                                       pad(best_text(one), kBest), pad(bar_text(one, table), kNumber),
                                       verdict_text(one)));
            told = true;
        }
        if (!told) out += trimmed(line);
    }
    for (const auto& skip : table.skipped)
        out += fmt::format("  skipped {}: {}{}\n", skip.name, printable(skip.reason, kMaxReason),
                           skip.remedy.empty() ? "" : fmt::format(" ({})", skip.remedy));
    for (std::size_t i = 0; i < std::min(kMaxProblems, table.problems.size()); ++i)
        out += fmt::format("  WRONG {}\n", table.problems[i]);
    if (table.problems.size() > kMaxProblems)
        out += fmt::format("  WRONG and {} more (--json has all)\n", table.problems.size() - kMaxProblems);
    out += "\n";
}

} // namespace

std::string show(double value, Unit unit)
{
    switch (unit) {
    case Unit::Nanoseconds:
        if (value < 1e3) return fmt::format("{:.0f} ns", value);
        if (value < 1e6) return fmt::format("{:.1f} µs", value / 1e3);
        if (value < 1e9) return fmt::format("{:.3f} ms", value / 1e6);
        return fmt::format("{:.2f} s", value / 1e9);
    case Unit::BytesPerSecond: return fmt::format("{:.0f} MB/s", value / 1e6);
    case Unit::Bytes: return fmt::format("{:.0f} KiB", value / 1024);
    case Unit::Count: return fmt::format("{:.3g}", value);
    }
    return {};
}

Tally tally(const Report& report)
{
    Tally sum;
    for (const auto& table : report.tables) {
        sum.problems += static_cast<unsigned>(table.problems.size());
        for (const auto& one : judge(table, report.loosen)) {
            sum.passed += one.verdict == Verdict::Pass ? 1 : 0;
            sum.failed += one.verdict == Verdict::Fail ? 1 : 0;
            sum.inconclusive += one.verdict == Verdict::Inconclusive ? 1 : 0;
        }
    }
    return sum;
}

std::string render_text(const Report& report)
{
    const Machine& m = report.machine;
    std::string out =
        fmt::format("Linux {}, {} cores, {}, load {:.2f} before and {:.2f} after\n"
                    "state {} ({}), control groups {}\n{} rounds, {} repeats{}\n",
                    m.kernel, m.cores, m.root ? "root" : "ordinary user", m.load_before, m.load_after,
                    m.state_path, m.state_file_system, m.cgroup_layout, report.rounds, report.repeats,
                    report.loosen > 1 ? fmt::format(", bars loosened by {}", report.loosen) : "");
    if (!m.fallbacks.empty()) out += fmt::format("fallbacks: {}\n", fmt::join(m.fallbacks, ", "));
    out += "\n";
    for (const auto& table : report.tables) render_table(out, table, report.loosen);
    const Tally sum = tally(report);
    out += fmt::format("{} bars passed, {} failed, {} inconclusive; {} wrong answers or leaks\n", sum.passed,
                       sum.failed, sum.inconclusive, sum.problems);
    return out;
}

} // namespace berth::bench

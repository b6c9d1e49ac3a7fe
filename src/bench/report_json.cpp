#include "bench/report.hpp"

namespace berth::bench {

namespace {

json::Array words(const std::vector<std::string>& list)
{
    json::Array out;
    for (const auto& word : list) out.emplace_back(word);
    return out;
}

json::Object machine_json(const Machine& m)
{
    json::Object out;
    out["kernel"] = m.kernel;
    out["cores"] = m.cores;
    out["root"] = m.root;
    out["load_before"] = m.load_before;
    out["load_after"] = m.load_after;
    out["state_path"] = m.state_path;
    out["state_file_system"] = m.state_file_system;
    out["cgroup_layout"] = m.cgroup_layout;
    out["fallbacks"] = words(m.fallbacks);
    return out;
}

json::Object series_json(const Series& series)
{
    const auto s = summarize(series.all());
    json::Object out;
    out["name"] = series.name;
    out["unit"] = to_string(series.unit);
    out["count"] = s.count;
    out["min"] = s.min;
    out["p50"] = s.p50;
    out["p90"] = s.p90;
    out["p95"] = s.p95;
    out["p99"] = s.p99;
    return out;
}

json::Object claim_json(const Judged& judged)
{
    json::Object out;
    out["subject"] = judged.claim.subject;
    if (!judged.claim.reference.empty()) out["reference"] = judged.claim.reference;
    out["relation"] = to_string(judged.claim.relation);
    out["value"] = judged.value;
    json::Array values;
    for (const double value : judged.values) values.emplace_back(value);
    out["values"] = std::move(values);
    out["at_best"] = judged.at_best;
    out["reference_spread"] = judged.reference_spread;
    if (judged.claim.bar) {
        out["bar"] = judged.claim.bar->limit;
        if (judged.claim.bar->stretch > 0) out["stretch"] = judged.claim.bar->stretch;
        out["meets_stretch"] = judged.stretch;
    }
    out["verdict"] = to_string(judged.verdict);
    return out;
}

json::Object table_json(const Table& table, double loosen)
{
    json::Object out;
    out["name"] = table.name;
    json::Array series;
    for (const auto& one : table.series) series.emplace_back(series_json(one));
    out["series"] = std::move(series);
    json::Array claims;
    for (const auto& one : judge(table, loosen)) claims.emplace_back(claim_json(one));
    out["claims"] = std::move(claims);
    json::Array skipped;
    for (const auto& skip : table.skipped) {
        json::Object item;
        item["name"] = skip.name;
        item["reason"] = skip.reason;
        if (!skip.remedy.empty()) item["remedy"] = skip.remedy;
        skipped.emplace_back(std::move(item));
    }
    out["skipped"] = std::move(skipped);
    out["problems"] = words(table.problems);
    return out;
}

} // namespace

json::Object render_json(const Report& report)
{
    json::Object out;
    out["machine"] = machine_json(report.machine);
    out["rounds"] = report.rounds;
    out["repeats"] = report.repeats;
    out["loosen"] = report.loosen;
    json::Array tables;
    for (const auto& table : report.tables) tables.emplace_back(table_json(table, report.loosen));
    out["tables"] = std::move(tables);
    const Tally sum = tally(report);
    json::Object total;
    total["passed"] = sum.passed;
    total["failed"] = sum.failed;
    total["inconclusive"] = sum.inconclusive;
    total["problems"] = sum.problems;
    total["ok"] = sum.ok();
    out["total"] = std::move(total);
    return out;
}

} // namespace berth::bench

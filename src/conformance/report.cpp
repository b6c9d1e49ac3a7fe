#include "conformance/report.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace berth::conformance {

namespace {

double seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

} // namespace

std::string_view to_string(Outcome outcome) noexcept
{
    switch (outcome) {
    case Outcome::Passed: return "passed";
    case Outcome::Unsupported: return "unsupported";
    case Outcome::Failed: return "failed";
    case Outcome::Skipped: return "skipped";
    }
    return "unknown outcome";
}

std::size_t Report::count(Outcome outcome) const
{
    return static_cast<std::size_t>(std::ranges::count(findings, outcome, &Finding::outcome));
}

std::string render_line(const Finding& finding)
{
    const std::string line =
        fmt::format("{:<12} {}: {}", to_string(finding.outcome), finding.group, finding.name);
    if (finding.message.empty()) return line + "\n";
    return fmt::format("{}\n{:<12} -> {}\n", line, "", finding.message);
}

std::string render_summary(const Report& report)
{
    std::string out;
    for (const auto outcome : {Outcome::Skipped, Outcome::Failed}) {
        if (report.count(outcome) == 0) continue;
        out += fmt::format("\n{}:\n", to_string(outcome));
        for (const auto& finding : report.findings)
            if (finding.outcome == outcome) out += render_line(finding);
    }
    return out + fmt::format("\n{}: {} passed, {} unsupported, {} failed, {} skipped ({:.1f} s)\n",
                             report.backend, report.count(Outcome::Passed),
                             report.count(Outcome::Unsupported), report.count(Outcome::Failed),
                             report.count(Outcome::Skipped), seconds(report.elapsed));
}

json::Object render_json(const Report& report)
{
    json::Array checks;
    for (const auto& finding : report.findings) {
        json::Object one;
        one["group"] = finding.group;
        one["name"] = finding.name;
        one["outcome"] = to_string(finding.outcome);
        if (!finding.message.empty()) one["message"] = finding.message;
        one["seconds"] = seconds(finding.elapsed);
        checks.emplace_back(std::move(one));
    }
    json::Object out;
    out["backend"] = report.backend;
    for (const auto outcome : {Outcome::Passed, Outcome::Unsupported, Outcome::Failed, Outcome::Skipped})
        out[to_string(outcome)] = report.count(outcome);
    out["seconds"] = seconds(report.elapsed);
    out["checks"] = std::move(checks);
    return out;
}

} // namespace berth::conformance

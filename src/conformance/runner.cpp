#include "conformance/runner.hpp"

#include <algorithm>

#include <fmt/ranges.h>

#include "base/strings.hpp"
#include "conformance/context.hpp"
#include "conformance/unclaimed.hpp"

namespace berth::conformance {

namespace {

Finding run_one(Place& place, const Check& check)
{
    Finding found{.group = std::string(check.group), .name = check.name};
    Context context(place);
    const auto missing =
        std::ranges::find_if(check.needs, [&](const Need& need) { return !claimed(context, need); });
    const bool unclaimed = missing != check.needs.end();
    const Status done = unclaimed ? refuses(context, *missing) : check.run(context);
    if (done) {
        const std::string without = unclaimed ? to_string(*missing) : context.offers_no();
        found.outcome = without.empty() ? Outcome::Passed : Outcome::Unsupported;
        if (!without.empty()) found.message = "not offered, and refused: " + without;
        return found;
    }
    const bool skipped = !context.skipped().empty();
    found.outcome = skipped ? Outcome::Skipped : Outcome::Failed;
    found.message = skipped ? context.skipped() : done.error().line();
    return found;
}

/// The last check of all: what the others made is gone.
Finding look_for_leftovers(Place& place)
{
    Finding found{.group = "kit", .name = "nothing of what was made is left behind"};
    const auto shared = place.shared_now();
    if (shared) (void)place.await(place.backend().destroy(*shared));
    const auto left = place.left();
    if (!left) {
        found.message = left.error().line();
    } else if (!left->empty()) {
        std::vector<std::string> names;
        for (const auto& one : *left) names.push_back(one.native);
        found.message = fmt::format("the backend still has {}", fmt::join(names, ", "));
    } else {
        found.outcome = Outcome::Passed;
    }
    return found;
}

bool fits(const Check& check, const std::string& word)
{
    return check.group == word || check.name == word ||
           fmt::format("{}: {}", check.group, check.name) == word;
}

} // namespace

Result<std::vector<Check>> choose(const std::vector<std::string>& only)
{
    std::vector<Check> all;
    for (const auto& group : groups()) std::ranges::move(group.checks(), std::back_inserter(all));
    if (only.empty()) return all;
    std::vector<bool> wanted(all.size());
    for (const auto& word : only) {
        const auto mark = [&](const auto& holds) {
            bool any = false;
            for (std::size_t i = 0; i < all.size(); ++i) {
                if (!holds(all[i])) continue;
                any = wanted[i] = true;
            }
            return any;
        };
        if (mark([&](const Check& check) { return fits(check, word); })) continue;
        if (!word.empty() && mark([&](const Check& check) { return check.name.contains(word); })) continue;
        std::vector<std::string> names;
        for (const auto& group : groups()) names.emplace_back(group.name);
        const std::string near = nearest(word, names);
        return fail(Code::Invalid, "no group and no check is called '{}'{} (--list shows them)",
                    printable(word, 80), near.empty() ? "" : fmt::format(", did you mean {}?", near));
    }
    std::vector<Check> chosen;
    for (std::size_t i = 0; i < all.size(); ++i)
        if (wanted[i]) chosen.push_back(std::move(all[i]));
    return chosen;
}

Result<Report> run(const BackendRegistry& registry, const std::vector<Check>& checks,
                   const RunOptions& options)
{
    BERTH_TRY(const auto place, Place::make(registry, options.place));
    Report report{.backend = options.place.backend};
    const auto begun = system_clock().steady();
    const auto tell = [&](Finding finding, SteadyTime since) {
        finding.elapsed = system_clock().steady() - since;
        if (options.on_finding) options.on_finding(finding);
        report.findings.push_back(std::move(finding));
        return report.findings.back().outcome != Outcome::Failed;
    };
    for (const auto& check : checks) {
        if (options.enough && options.enough()) break;
        const auto since = system_clock().steady();
        const bool well = tell(place->stuck() ? Finding{.group = std::string(check.group),
                                                        .name = check.name,
                                                        .message = "not run: an earlier call never returned"}
                                              : run_one(*place, check),
                               since);
        if (!well && options.stop_at_failure) break;
    }
    if (!place->stuck()) tell(look_for_leftovers(*place), system_clock().steady());
    report.elapsed = system_clock().steady() - begun;
    return report;
}

} // namespace berth::conformance

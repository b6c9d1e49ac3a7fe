#include "cli/policy_prove.hpp"

#include <algorithm>

#include "base/brief.hpp"
#include "base/strings.hpp"
#include "cli/session.hpp"
#include "cli/table.hpp"
#include "lifecycle/proving.hpp"

namespace berth::cli {

namespace {

using prove::Receipt;
using prove::Tried;
using prove::Verdict;

std::string in_words(const Tried& one)
{
    switch (one.verdict) {
    case Verdict::Held: return one.must == prove::Must::Pass || one.sure ? "held" : "held?";
    case Verdict::NotHeld: return "NOT-HELD";
    case Verdict::Unclear: return "UNCLEAR";
    case Verdict::Absent: return "-";
    }
    return "-";
}

/// Every probe, or what is worth a look: what did not hold, and of each rule how many did.
std::string page_of(const Receipt& receipt, bool all)
{
    std::string out;
    Table table({"RULE", "PROBE", "MUST", "AS", "RESULT", "SAW"});
    for (const auto& one : receipt.probes)
        if (all || one.verdict == Verdict::NotHeld || one.verdict == Verdict::Unclear)
            table.add({printable(one.rule, 40), printable(one.probe, 60), std::string(to_string(one.must)),
                       printable(one.user), in_words(one), printable(one.saw, 80)});
    if (all || !receipt.held()) out += table.text() + "\n";
    Table rules({"RULE", "TIER", "REFUSED", "PASSED", "ABSENT", "WRONG"});
    std::vector<std::string> names;
    for (const auto& one : receipt.probes)
        if (std::ranges::find(names, one.rule) == names.end()) names.push_back(one.rule);
    for (const auto& name : names) {
        const auto count = [&](auto fits) {
            return std::to_string(std::ranges::count_if(
                receipt.probes, [&](const Tried& one) { return one.rule == name && fits(one); }));
        };
        const auto held = [](prove::Must must) {
            return [must](const Tried& one) { return one.verdict == Verdict::Held && one.must == must; };
        };
        const auto* const promise = receipt.promise(name);
        rules.add({printable(name, 60),
                   promise == nullptr ? "-" : std::string(policy::to_string(promise->tier)),
                   count(held(prove::Must::Fail)), count(held(prove::Must::Pass)),
                   count([](const Tried& one) { return one.verdict == Verdict::Absent; }),
                   count([](const Tried& one) {
                       return one.verdict == Verdict::NotHeld || one.verdict == Verdict::Unclear;
                   })});
    }
    out += rules.text();
    for (const auto& one : receipt.untried)
        out += fmt::format("not tried: {} ({})\n", printable(one.rule, 60), printable(one.why, 200));
    const auto unsure = std::ranges::count_if(receipt.probes, [](const Tried& one) {
        return one.verdict == Verdict::Held && one.must == prove::Must::Fail && !one.sure;
    });
    if (unsure > 0)
        out += fmt::format("{} refusals may have another reason than the wall (held? with --all)\n", unsure);
    out += fmt::format("{}: policy {} ({}) on {} {}, kernel {}, {}\nreceipt {}\n",
                       receipt.held() ? "held" : "NOT HELD", cell(receipt.policy),
                       receipt.policy_hash.substr(0, 19), receipt.backend, receipt.sandbox, receipt.kernel,
                       rfc3339(receipt.time), receipt.id);
    return out;
}

Result<int> prove_one(const Common& common, const std::string& ref, bool all)
{
    BERTH_TRY(const auto berth, open_berth(common));
    BlockingPool pool(1);
    Proving proving(berth->lifecycle(), pool, berth->data());
    BERTH_TRY(const auto receipt, berth->run(proving.prove(ref)));
    const int printed = common.json ? print_document(prove::to_json(receipt)) : print(page_of(receipt, all));
    if (printed != 0) return printed;
    return receipt.held() ? 0 : exit_code(Code::Unsupported);
}

Result<int> list(const Common& common, const std::string& ref)
{
    BERTH_TRY(const auto berth, open_berth(common, Room::Reads));
    BlockingPool pool(1);
    Proving proving(berth->lifecycle(), pool, berth->data());
    BERTH_TRY(auto all, berth->run(proving.receipts(ref)));
    if (common.json) {
        json::Array receipts;
        for (auto& one : all) receipts.emplace_back(std::move(one));
        json::Object document;
        document["receipts"] = std::move(receipts);
        return print_document(document);
    }
    Table table({"RECEIPT", "TIME", "GENERATION", "HELD", "POLICY", "HASH", "KERNEL"});
    const auto text = [](const json::Object& one, std::string_view name) {
        const auto* const value = one.if_contains(name);
        const auto* const string = value == nullptr ? nullptr : value->if_string();
        return string == nullptr ? std::string{} : std::string(*string);
    };
    for (const auto& one : all) {
        const auto* const held = one.if_contains("held");
        const auto* const generation = one.if_contains("generation");
        table.add({text(one, "id"), text(one, "time"), generation != nullptr ? json::dump(*generation) : "-",
                   held != nullptr && held->is_bool() && held->as_bool() ? "yes" : "NO",
                   cell(text(one, "policy")), text(one, "policy_hash").substr(0, 19),
                   cell(text(one, "kernel"))});
    }
    return print(table.text());
}

} // namespace

int prove_policy(const Common& common, const std::string& ref, bool all)
{
    const auto done = prove_one(common, ref, all);
    return done ? *done : report(done.error(), common);
}

int show_receipts(const Common& common, const std::string& ref)
{
    const auto done = list(common, ref);
    return done ? *done : report(done.error(), common);
}

} // namespace berth::cli

#include <iostream>

#include <CLI/CLI.hpp>

#include "backend/local/doctor.hpp"
#include "base/json.hpp"
#include "cli/app.hpp"
#include "cli/verbs.hpp"

namespace berth::cli {

namespace {

int clean(const Common& common, const std::string& path)
{
    const auto state = local::StateDir::open(path);
    if (!state) return report(state.error(), common);
    const auto removed = local::clean(*state);
    if (!removed) return report(removed.error(), common);
    if (common.json) {
        json::Array list;
        for (const auto& what : *removed) list.emplace_back(what);
        json::Object document;
        document["removed"] = std::move(list);
        std::cout << json::dump(document) << "\n";
    } else {
        for (const auto& what : *removed) std::cout << "removed " << what << "\n";
        if (removed->empty()) std::cout << "nothing to clean\n";
    }
    return 0;
}

void print(const std::vector<local::Finding>& findings)
{
    for (const auto& finding : findings) {
        std::cout << fmt::format("{:<8} {:<16} {}\n", to_string(finding.verdict), finding.name,
                                 finding.detail);
        if (!finding.remedy.empty()) std::cout << fmt::format("{:<25} -> {}\n", "", finding.remedy);
    }
}

void print_json(const std::vector<local::Finding>& findings)
{
    json::Array list;
    for (const auto& finding : findings) {
        json::Object item;
        item["name"] = finding.name;
        item["verdict"] = std::string_view(to_string(finding.verdict));
        item["detail"] = finding.detail;
        if (!finding.remedy.empty()) item["remedy"] = finding.remedy;
        list.emplace_back(std::move(item));
    }
    json::Object document;
    document["findings"] = std::move(list);
    std::cout << json::dump(document) << "\n";
}

} // namespace

int doctor_verb(int argc, char** argv)
{
    CLI::App app(
        "Tell what works on this machine for this user, what does not, and the command that fixes it.\n\n"
        "Example:\n  berth doctor\n  berth doctor --clean\n",
        "berth doctor");
    Common common;
    bool sweep = false;
    app.add_flag("--clean", sweep, "Remove what killed runs left behind");
    add_common(app, common);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, common, argc, argv)) return *done;
    const auto path = state_path(common);
    if (!path) return report(path.error(), common);
    if (sweep) return clean(common, *path);

    const auto findings = local::examine(*path);
    if (common.json)
        print_json(findings);
    else
        print(findings);
    // What decides is whether a sandbox runs; the rest is told.
    return findings.back().verdict == local::Finding::Verdict::Ok ? 0 : exit_code(Code::Unsupported);
}

} // namespace berth::cli

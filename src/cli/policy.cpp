#include <iostream>

#include <CLI/CLI.hpp>

#include "backend/local/group_pool.hpp"
#include "backend/local/holdings.hpp"
#include "base/json.hpp"
#include "cli/app.hpp"
#include "cli/policy_options.hpp"
#include "cli/verbs.hpp"
#include "policy/document.hpp"

namespace berth::cli {

namespace {

int show_policy(const Common& common, const SandboxSpec& spec, bool toml)
{
    if (toml)
        std::cout << policy::to_toml(spec.policy);
    else if (common.json)
        std::cout << json::dump(policy::to_json(spec.policy)) << "\n";
    else
        std::cout << json::dump_pretty(policy::to_json(spec.policy)) << "\n";
    return 0;
}

/// Rule by rule: the tier that holds it on this machine, and by what.
int explain_policy(const Common& common, const SandboxSpec& spec)
{
    const auto path = state_path(common);
    if (!path) return report(path.error(), common);
    const auto state = local::StateDir::open(*path);
    if (!state) return report(state.error(), common);
    const auto identity = local::make_identity(*state, state->path());
    if (!identity) return report(identity.error(), common);
    local::RootLayers layers;
    layers.kind = spec.root.kind;
    const auto have = local::hold(*identity, layers, local::availability_of(sys::CgroupTree::open()));
    const auto lines = policy::explain(policy::demands(spec.policy), have);
    bool all = true;
    json::Array list;
    for (const auto& line : lines) {
        all = all && line.met;
        if (common.json) {
            json::Object item;
            item["rule"] = line.demand.why;
            item["feature"] = std::string_view(to_string(line.demand.feature));
            item["tier"] = std::string_view(to_string(line.holding.tier));
            item["how"] = line.holding.how;
            item["held"] = line.met;
            list.emplace_back(std::move(item));
        } else {
            std::cout << fmt::format("{:<8} {:<32} {}\n", line.met ? to_string(line.holding.tier) : "REFUSED",
                                     line.demand.why, line.holding.how);
        }
    }
    if (common.json) {
        json::Object document;
        document["rules"] = std::move(list);
        document["admitted"] = all;
        std::cout << json::dump(document) << "\n";
    } else if (lines.empty()) {
        std::cout << "no rules: everything in the private root may be read and written\n";
    }
    return all ? 0 : exit_code(Code::Unsupported);
}

} // namespace

int policy_verb(int argc, char** argv)
{
    CLI::App app("Show, check and explain policies.\n\n"
                 "Example:\n  berth policy show workspace-write\n  berth policy check mine.toml\n"
                 "  berth policy explain mine.toml\n",
                 "berth policy");
    Common common;
    PolicyOptions options;
    bool toml = false;
    std::string root = "host";
    auto* show = app.add_subcommand("show", "Print a preset or file as a whole document");
    auto* check = app.add_subcommand("check", "Say whether a document is valid, and where it is not");
    auto* explain = app.add_subcommand("explain", "Say for each rule where and how this machine holds it");
    for (auto* verb : {show, check, explain}) {
        verb->add_option("policy", options.policy, "A preset's name, or a .json or .toml file")->required();
        add_common(*verb, common);
    }
    show->add_flag("--toml", toml, "As TOML instead of JSON");
    explain->add_option("--template", root, "The template it is to hold on")->type_name("TEMPLATE");
    app.require_subcommand(1);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, common, argc, argv)) return *done;

    SandboxSpec spec;
    auto parsed_root = parse_template(root);
    if (!parsed_root) return report(parsed_root.error(), common);
    spec.root = *std::move(parsed_root);
    if (const auto applied = apply(options, spec); !applied) return report(applied.error(), common);
    if (*show) return show_policy(common, spec, toml);
    if (*explain) return explain_policy(common, spec);
    if (common.json)
        std::cout << R"({"valid":true})" << "\n";
    else
        std::cout << "valid\n";
    return 0;
}

} // namespace berth::cli

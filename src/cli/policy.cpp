#include <iostream>

#include <CLI/CLI.hpp>

#include "backend/local/group_pool.hpp"
#include "backend/local/holdings.hpp"
#include "base/json.hpp"
#include "cli/app.hpp"
#include "cli/policy_options.hpp"
#include "cli/policy_prove.hpp"
#include "cli/session.hpp"
#include "cli/verbs.hpp"
#include "lifecycle/documents.hpp"
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

/// What a backend holds here. Of the local one it depends on the template.
Result<policy::Holdings> holdings_of(const Common& common, const std::string& backend,
                                     const SandboxSpec& spec)
{
    if (backend != "local") {
        BERTH_TRY(const auto berth, open_berth(common, Room::Reads));
        BERTH_TRY(const auto* const where, berth->backend(backend));
        return where->capabilities().holds;
    }
    BERTH_TRY(const auto path, state_path(common));
    BERTH_TRY(const auto state, local::StateDir::open(path));
    BERTH_TRY(const auto identity, local::make_identity(state, state.path()));
    local::RootLayers layers;
    layers.kind = spec.root.kind;
    return local::hold(identity, layers, local::availability_of(sys::CgroupTree::open()), &spec.policy);
}

/// Rule by rule: the tier that holds it on this machine, and by what.
int explain_policy(const Common& common, const SandboxSpec& spec, const std::string& backend)
{
    const auto have = holdings_of(common, backend, spec);
    if (!have) return report(have.error(), common);
    const auto document = documents::explanation(spec, *have);
    const bool all = document.at("admitted").get_bool();
    if (common.json) {
        std::cout << json::dump(document) << "\n";
        return all ? 0 : exit_code(Code::Unsupported);
    }
    const auto text = [](const json::Object& rule, const char* name) {
        return std::string(rule.at(name).get_string());
    };
    for (const auto& one : document.at("rules").get_array()) {
        const auto& rule = one.get_object();
        const std::string held = rule.at("held").get_bool()      ? text(rule, "tier")
                                 : rule.at("refused").get_bool() ? "REFUSED"
                                                                 : "not-held";
        std::cout << fmt::format("{:<8} {:<32} {}\n", held, text(rule, "rule"), text(rule, "how"));
    }
    return all ? 0 : exit_code(Code::Unsupported);
}

} // namespace

int policy_verb(int argc, char** argv)
{
    CLI::App app("Show, check, explain and prove policies.\n\n"
                 "Example:\n  berth policy show workspace-write\n  berth policy check mine.toml\n"
                 "  berth policy explain mine.toml --backend docker\n  berth policy prove demo\n",
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
    std::string backend = "local";
    explain->add_option("--backend", backend, "The backend it is to hold on (default: local)")
        ->type_name("NAME");
    std::string ref;
    bool every = false;
    auto* prove = app.add_subcommand(
        "prove", "Try the policy of a running sandbox out from inside, and keep the receipt");
    auto* receipts = app.add_subcommand("receipts", "List the receipts of a sandbox");
    for (auto* verb : {prove, receipts}) {
        verb->add_option("sandbox", ref, "An id, a prefix of one, a name or a key")
            ->type_name("REF")
            ->required();
        add_common(*verb, common);
    }
    prove->add_flag("--all", every, "Show every probe, not only what did not hold");
    explain->add_option("--template", root, "The template it is to hold on")->type_name("TEMPLATE");
    app.require_subcommand(1);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, common, argc, argv)) return *done;

    if (*prove) return prove_policy(common, ref, every);
    if (*receipts) return show_receipts(common, ref);
    if (options.policy.empty())
        return report({.code = Code::Invalid, .message = "which policy? A preset's name, or a file"}, common);
    SandboxSpec spec;
    auto parsed_root = parse_template(root);
    if (!parsed_root) return report(parsed_root.error(), common);
    spec.root = *std::move(parsed_root);
    if (const auto applied = apply(options, spec); !applied) return report(applied.error(), common);
    if (*show) return show_policy(common, spec, toml);
    if (*explain) return explain_policy(common, spec, backend);
    if (common.json)
        std::cout << R"({"valid":true})" << "\n";
    else
        std::cout << "valid\n";
    return 0;
}

} // namespace berth::cli

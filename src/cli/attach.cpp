// Borrowing an instance that somebody else made, and letting it go.

#include <CLI/CLI.hpp>

#include "cli/record_json.hpp"
#include "cli/session.hpp"
#include "cli/verbs.hpp"

namespace berth::cli {

namespace {

Result<Acquired> attach(const Common& common, const std::string& backend, const std::string& native,
                        const std::optional<std::string>& name)
{
    if (name) BERTH_CHECK(check_sandbox_name(*name));
    BERTH_TRY(const auto berth, open_berth(common));
    return berth->run(berth->lifecycle().attach(backend, native, name.value_or("")));
}

} // namespace

int attach_verb(int argc, char** argv)
{
    CLI::App app(
        "Use an instance that somebody else made, as a sandbox. It is borrowed: never stopped or destroyed\n"
        "by berth, only detached.\n\n"
        "Example:\n  berth attach docker my-container --name mine\n",
        "berth attach");
    Common common;
    std::string backend, native;
    std::optional<std::string> name;
    bool quiet = false;
    app.add_option("backend", backend, "Whose instance it is")->type_name("BACKEND")->required();
    app.add_option("native", native, "What the backend calls it")->type_name("NATIVE")->required();
    app.add_option("--name", name, "A name for people")->type_name("NAME");
    app.add_flag("-q,--quiet", quiet, "Print the id and nothing else");
    add_common(app, common);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, common, argc, argv)) return *done;
    const auto acquired = attach(common, backend, native, name);
    if (!acquired) return report(acquired.error(), common);
    if (common.json) return print_document(acquired_json(*acquired));
    if (!quiet) say_outcome(*acquired);
    return print(acquired->record.id() + "\n");
}

int detach_verb(int argc, char** argv)
{
    CLI::App app("Let borrowed instances go; they run on.\n\nExample:\n  berth detach mine\n",
                 "berth detach");
    Common common;
    std::vector<std::string> refs;
    app.add_option("sandbox", refs, "Ids, prefixes of ids, names or keys")->type_name("REF...")->required();
    add_common(app, common);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, common, argc, argv)) return *done;
    const auto berth = open_berth(common);
    if (!berth) return report(berth.error(), common);
    return for_each_ref(common, refs, [&](const std::string& ref) -> Result<json::Object> {
        BERTH_TRY(const auto record, (*berth)->run((*berth)->lifecycle().detach(ref)));
        return record_json(record);
    });
}

} // namespace berth::cli

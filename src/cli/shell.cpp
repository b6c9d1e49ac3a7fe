#include <CLI/CLI.hpp>

#include "cli/attended_exec.hpp"
#include "cli/exec_options.hpp"
#include "cli/session.hpp"
#include "cli/verbs.hpp"

namespace berth::cli {

namespace {

struct Options {
    Common common;
    std::string ref;
    std::string user;
};

Result<int> run(const Options& o)
{
    BERTH_TRY(auto exec, shell_spec(o.ref, o.user));
    BERTH_TRY(const auto berth, open_berth(o.common));
    return attended_exec(*berth, o.common, o.ref, std::move(exec));
}

} // namespace

int shell_verb(int argc, char** argv)
{
    CLI::App app("Open a login shell in a sandbox, bash where there is one; its exit code is ours.\n\n"
                 "Example:\n"
                 "  berth shell mybox\n",
                 "berth shell");
    Options options;
    app.add_option("sandbox", options.ref, "The sandbox: id, unique prefix, name or key")
        ->type_name("REF")
        ->required();
    app.add_option("-u,--user", options.user, "User inside: a name or uid[:gid]")->type_name("USER");
    add_common(app, options.common);
    if (gathering(app)) return 0;
    if (const auto done = parse(app, options.common, argc, argv, kOwnFailure)) return *done;
    const auto code = run(options);
    return code ? *code : report(code.error(), options.common, start_failure_code(code.error()));
}

} // namespace berth::cli

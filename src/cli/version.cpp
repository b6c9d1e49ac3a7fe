#include <sys/utsname.h>

#include <iostream>

#include <CLI/CLI.hpp>

#include "base/hooks.hpp"
#include "base/json.hpp"
#include "cli/app.hpp"
#include "cli/verbs.hpp"

namespace berth::cli {

int version_verb(int argc, char** argv)
{
    CLI::App app("Print the version of berth.\n\nExample:\n  berth version --json\n", "berth version");
    Common common;
    add_common(app, common);
    if (gathering(app)) return 0;
    if (argc > 0 && std::string_view(argv[0]).starts_with("-")) argc = 1;
    if (const auto done = parse(app, common, argc, argv)) return *done;
    if (common.json) {
        json::Object document;
        document["version"] = BERTH_VERSION;
        document["test_hooks"] = hooks::available();
        std::cout << json::dump(document) << "\n";
    } else {
        std::cout << "berth " << BERTH_VERSION
                  << (hooks::available() ? " (built for tests: walls can be switched off)" : "") << "\n";
    }
    return 0;
}

} // namespace berth::cli

#include "cli/codex_options.hpp"

#include <sys/stat.h>

#include <climits>
#include <cmath>
#include <cstdlib>

#include <CLI/CLI.hpp>

#include "base/strings.hpp"

namespace berth::cli {

std::string above_zero(const std::string& text)
{
    const double number = std::strtod(text.c_str(), nullptr);
    return std::isfinite(number) && number > 0 ? std::string{} : "it must be a number above zero";
}

void add_codex_options(CLI::App& app, CodexOptions& options, const std::string& root)
{
    const bool own = root == "--root";
    app.add_option(root, options.roots,
                   own ? "Codex may write below this directory alone, beside temporary ones; several times"
                       : "Codex at /codex runs on this host, not in a sandbox: it may write below this "
                         "directory; several times")
        ->type_name("DIR")
        ->allow_extra_args(false);
    app.add_option(own ? "--http-allow" : "--codex-http-allow", options.http,
                   "Codex may have this server send HTTP requests to HOST[:PORT], *.DOMAIN or an address; "
                   "several times (default: to nobody)")
        ->type_name("HOST")
        ->allow_extra_args(false);
    if (!own) return;
    app.add_option("--net", options.net, "What an intent with network gets: off (default) or host")
        ->type_name("WORD");
    app.add_option("--pass-env", options.pass_env,
                   "A variable of ours that commands may inherit; * and ? match")
        ->type_name("NAME")
        ->allow_extra_args(false);
    app.add_option("--memory", options.memory, "Memory of each command")->type_name("SIZE");
    app.add_option("--cpus", options.cpus, "Processors of each command")->type_name("N")->check(above_zero);
    app.add_option("--pids", options.pids, "Processes of each command (default 4096)")
        ->type_name("N")
        ->check(above_zero);
}

Result<codex::Ceiling> codex_ceiling(const CodexOptions& options)
{
    using enum codex::Ceiling::Unsandboxed;
    codex::Ceiling out;
    for (const auto& root : options.roots) {
        char real[PATH_MAX];
        struct stat st{};
        if (::realpath(root.c_str(), &real[0]) == nullptr || ::stat(&real[0], &st) != 0)
            return fail_errno("{}", printable(root));
        if (!S_ISDIR(st.st_mode)) return fail(Code::Invalid, "{} is not a directory", printable(root));
        out.roots.emplace_back(&real[0]);
    }
    if (options.unsandboxed == "allow")
        out.unsandboxed = Allow;
    else if (options.unsandboxed == "confine")
        out.unsandboxed = Confine;
    else if (options.unsandboxed != "refuse")
        return fail(Code::Invalid, "--unsandboxed '{}': one of refuse, confine, allow",
                    printable(options.unsandboxed, 40));
    if (options.net != "off" && options.net != "host")
        return fail(Code::Invalid, "--net '{}': off or host", printable(options.net, 40));
    out.network = options.net == "host";
    out.pass_env.insert(out.pass_env.end(), options.pass_env.begin(), options.pass_env.end());
    for (const auto& host : options.http) {
        BERTH_TRY(auto one, codex::parse_destination(host));
        out.http.push_back(std::move(one));
    }
    if (!options.memory.empty()) {
        BERTH_TRY(out.limits.memory, parse_bytes(options.memory));
    }
    if (options.cpus > 0) out.limits.cpus = options.cpus;
    if (options.pids > 0) out.limits.pids = options.pids;
    return out;
}

} // namespace berth::cli

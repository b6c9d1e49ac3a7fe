#include "cli/sandbox_options.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include <CLI/CLI.hpp>

#include "base/strings.hpp"
#include "cli/exec_server_url.hpp"

namespace berth::cli {

namespace {

Status add_pair(std::map<std::string, std::string>& into, const std::string& text, std::string_view what)
{
    const auto equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
        return fail(Code::Invalid, "bad {} '{}': write it like NAME=value", what, printable(text, 80));
    into[text.substr(0, equals)] = text.substr(equals + 1);
    return {};
}

} // namespace

void add_sandbox_options(CLI::App& app, SandboxOptions& o)
{
    app.add_option("--backend", o.backend, "Where it runs: local, docker, e2b, exec-server")
        ->type_name("NAME");
    add_url_option(app, o.url);
    app.add_option("--template", o.root,
                   "What the root starts from: host, live, a directory, a tar file, an image "
                   "(oci:PATH[:TAG], docker-archive:FILE[:TAG], image:NAME), or the name of a template "
                   "that was built here (also built:NAME)")
        ->type_name("TEMPLATE");
    app.add_option("--workspace", o.workspaces,
                   "Show a directory at its own path: DIR[:rw|:ro|:copy]; it becomes the "
                   "working directory")
        ->type_name("DIR")
        ->allow_extra_args(false);
    app.add_option("--mount", o.mounts, "Show a host path inside: SRC:DST[:ro|:rw|:copy]")
        ->type_name("SRC:DST")
        ->allow_extra_args(false);
    app.add_option("-e,--env", o.env, "Set NAME=VALUE, or pass NAME on")
        ->type_name("NAME[=VALUE]")
        ->allow_extra_args(false);
    app.add_option("-w,--workdir", o.workdir, "Working directory inside")->type_name("DIR");
    app.add_option("-u,--user", o.user, "User inside: user (default), root, a name or uid[:gid]")
        ->type_name("USER");
    app.add_option("--name", o.name, "A name for people; also the host name inside")->type_name("NAME");
    app.add_option("--label", o.labels, "KEY=VALUE kept with the sandbox")
        ->type_name("KEY=VALUE")
        ->allow_extra_args(false);
    add_policy_options(app, o.policy);
}

Result<SandboxSpec> sandbox_spec(const SandboxOptions& o)
{
    SandboxSpec spec;
    BERTH_CHECK(use_url(o.url, o.backend));
    BERTH_TRY(spec.root, parse_template(o.root));
    BERTH_CHECK(apply(o.policy, spec));
    char cwd[4096];
    if (::getcwd(&cwd[0], sizeof cwd) == nullptr) return fail_errno("finding the working directory");
    for (const auto& text : o.workspaces) {
        BERTH_TRY(auto mount, parse_workspace(text, &cwd[0]));
        struct stat st{};
        if (::stat(mount.source.c_str(), &st) == 0 && !S_ISDIR(st.st_mode))
            return fail(Code::Invalid, "--workspace {} is not a directory: --mount shows a single file",
                        printable(mount.source));
        spec.mounts.push_back(std::move(mount));
    }
    for (const auto& text : o.mounts) {
        BERTH_TRY(auto mount, parse_mount(text, &cwd[0]));
        spec.mounts.push_back(std::move(mount));
    }
    for (const auto& text : o.env) {
        if (text.find('=') == std::string::npos && !text.empty()) {
            const char* value = std::getenv(text.c_str()); // NOLINT(concurrency-mt-unsafe): one thread
            if (value == nullptr)
                return fail(Code::NotFound, "environment variable {} is not set here", printable(text, 80));
            spec.env[text] = value;
        } else {
            BERTH_CHECK(add_pair(spec.env, text, "environment variable"));
        }
    }
    for (const auto& text : o.labels) BERTH_CHECK(add_pair(spec.labels, text, "label"));
    if (!o.user.empty()) spec.user = o.user;
    spec.workdir = o.workdir;
    spec.name = o.name;
    return spec;
}

} // namespace berth::cli

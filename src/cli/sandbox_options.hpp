#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "cli/policy_options.hpp"
#include "core/sandbox_spec.hpp"

namespace CLI {
class App;
}

namespace berth::cli {

/// The options that say what a sandbox is; the same for every verb that makes one.
struct SandboxOptions {
    PolicyOptions policy;
    std::string backend = "local";
    std::string url; ///< of the backend exec-server
    std::string root = "host";
    std::vector<std::string> workspaces;
    std::vector<std::string> mounts;
    std::vector<std::string> env;
    std::vector<std::string> labels;
    std::string workdir;
    std::string user;
    std::string name;
};

void add_sandbox_options(CLI::App& app, SandboxOptions& options);

/// What was asked for, without an id. The address of an exec-server is known to its backend from here on: to
/// be called before there are threads.
[[nodiscard]] Result<SandboxSpec> sandbox_spec(const SandboxOptions& options);

} // namespace berth::cli

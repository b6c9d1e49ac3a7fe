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

/// What was asked for, without an id.
[[nodiscard]] Result<SandboxSpec> sandbox_spec(const SandboxOptions& options);

} // namespace berth::cli

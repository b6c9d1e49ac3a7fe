#pragma once

#include <optional>
#include <string>

#include "base/result.hpp"
#include "core/sandbox_spec.hpp"

namespace CLI {
class App;
}

namespace berth::cli {

/// The options that say what a sandbox may touch; the same for every verb that makes one.
struct PolicyOptions {
    std::string policy;
    std::string net;
    std::string memory;
    std::string cpus;
    std::string pids;
    std::string disk;
    std::string open_files;
    std::string limits = "enforce";
};

void add_policy_options(CLI::App& app, PolicyOptions& options);

/// The policy that results: the document or preset, then each option on top of it.
[[nodiscard]] Status apply(const PolicyOptions& options, SandboxSpec& spec);

} // namespace berth::cli

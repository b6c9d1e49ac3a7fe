#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "server/codex/ceiling.hpp"

namespace CLI {
class App;
}

namespace berth::cli {

/// What an operator grants to Codex at most, as `exec-server` and `serve` take it.
struct CodexOptions {
    std::vector<std::string> roots;
    std::string unsandboxed = "refuse";
    std::string net = "off";
    std::vector<std::string> pass_env;
    std::string memory;
    double cpus = 0;
    std::uint64_t pids = 0;
    std::vector<std::string> http;
};

/// For an option that is a number: what is wrong with one that is not above zero.
[[nodiscard]] std::string above_zero(const std::string& text);

/// `root` is the name of the option for directories.
void add_codex_options(CLI::App& app, CodexOptions& options, const std::string& root);
[[nodiscard]] Result<codex::Ceiling> codex_ceiling(const CodexOptions& options);

} // namespace berth::cli

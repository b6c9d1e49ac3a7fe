#pragma once

#include <string>
#include <vector>

#include "cli/app.hpp"

namespace berth::cli {

struct TemplateBuildOptions {
    std::string file;
    std::string name;
    std::string backend = "e2b";
    std::string context;
    std::string start;
    std::string ready;
    std::string memory;
    unsigned cpus = 0;
    std::vector<std::string> tags;
    bool force = false;
};

void add_template_build(CLI::App& app, TemplateBuildOptions& o);

/// `berth template build`: a template at a server, from a Dockerfile.
[[nodiscard]] Result<int> template_build(const TemplateBuildOptions& o, const Common& common);

} // namespace berth::cli

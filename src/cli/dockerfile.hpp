#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"

namespace berth::cli {

/// One instruction of a Dockerfile that a template can have.
struct DockerStep {
    enum class Kind { Run, Copy, Env, Workdir, User };
    Kind kind = Kind::Run;
    std::vector<std::string> args;    ///< the command; names and values in turn; the path; the user
    std::vector<std::string> sources; ///< of Copy, relative to the context
    std::string destination;
    std::string owner; ///< of --chown
    std::string mode;  ///< of --chmod
    std::size_t line = 0;
};

struct Dockerfile {
    std::string from; ///< an image's name
    std::vector<DockerStep> steps;
    std::string start;                ///< of ENTRYPOINT and CMD, for a shell
    std::vector<std::string> skipped; ///< instructions that say nothing a template has
};

/// Invalid, naming the line: what is no Dockerfile, and what of one a template cannot have (several stages,
/// variables in places where nobody would put values in, files from other machines).
[[nodiscard]] Result<Dockerfile> parse_dockerfile(std::string_view text);

} // namespace berth::cli

#pragma once

#include "berth/berth.hpp"
#include "cli/app.hpp"

namespace berth::cli {

/// Runs one command in a sandbox with our own streams and signals as its own; answers with our exit code.
[[nodiscard]] Result<int> attended_exec(Berth& berth, const Common& common, const std::string& ref,
                                        ExecSpec exec);

/// The first line of a stream of JSON: which exec this is, and how its sandbox came to be usable.
[[nodiscard]] std::string exec_line(const Acquired& acquired, const std::string& exec);

} // namespace berth::cli

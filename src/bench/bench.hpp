#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "bench/context.hpp"
#include "bench/report.hpp"

namespace berth::bench {

/// What can be asked for, in the order it runs; "all" stands for every one.
[[nodiscard]] const std::vector<std::string>& subjects();

/// Runs the named subjects one after the other in this process, which becomes a subreaper. Only for a
/// single-threaded process.
[[nodiscard]] Result<Report> run(const local::StateDir& state, const std::vector<std::string>& wanted,
                                 const Options& options);

// One each: measures, checks its answers, and tells its tables.
[[nodiscard]] Result<std::vector<Table>> bench_floor(Context& context);
[[nodiscard]] Result<std::vector<Table>> bench_cold(Context& context);
[[nodiscard]] Result<std::vector<Table>> bench_warm(Context& context);
[[nodiscard]] Result<std::vector<Table>> bench_density(Context& context);
[[nodiscard]] Result<std::vector<Table>> bench_relay(Context& context);
[[nodiscard]] Result<std::vector<Table>> bench_log(Context& context);
[[nodiscard]] Result<std::vector<Table>> bench_fork(Context& context);
[[nodiscard]] Result<std::vector<Table>> bench_docker(Context& context);
[[nodiscard]] Result<std::vector<Table>> bench_tti(Context& context);
[[nodiscard]] Result<std::vector<Table>> bench_http(Context& context);
[[nodiscard]] Result<std::vector<Table>> bench_codex(Context& context);

} // namespace berth::bench

#pragma once

#include <string>
#include <string_view>

#include "berth/berth.hpp"
#include "cli/app.hpp"
#include "lifecycle/yield.hpp"

namespace berth::cli {

struct YieldOptions {
    std::string time;
    std::string max_tokens;
    [[nodiscard]] bool asked() const { return !time.empty() || !max_tokens.empty(); }
};

void add_yield_options(CLI::App& app, YieldOptions& options);

[[nodiscard]] Result<YieldWish> read_yield(const YieldOptions& options);

/// Beside the line in the output, which may be among what --max-output-tokens left out.
[[nodiscard]] std::string missing_in_turn(std::string_view bytes);

/// Starts a command, waits a while, and tells what there is; the command runs on when it has not ended.
[[nodiscard]] Result<int> run_yielding(Berth& berth, const Common& common, const std::string& ref,
                                       ExecSpec exec, const YieldOptions& options);

} // namespace berth::cli

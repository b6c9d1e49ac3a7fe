#pragma once

#include <optional>
#include <string>

#include "cli/app.hpp"
#include "lifecycle/cancel.hpp"

namespace berth::cli {

/// The words of `berth kill`, here and at a server.
struct KillOptions {
    Common common;
    std::string ref;
    std::string exec;
    std::string signal;
    std::string grace;
};

void add_kill_options(CLI::App& app, KillOptions& options);

struct KillWish {
    std::optional<int> signal; ///< that alone; nothing: its end
    std::chrono::milliseconds grace = kCancelGrace;
};
[[nodiscard]] Result<KillWish> read_kill(const KillOptions& options);

} // namespace berth::cli

#pragma once

#include <string>

#include "cli/app.hpp"

namespace berth::cli {

/// `berth policy prove`: the table or document of a new receipt. 0 when the policy holds, else as for what a
/// backend cannot hold.
[[nodiscard]] int prove_policy(const Common& common, const std::string& ref, bool all);
/// `berth policy receipts`: those the ledger has.
[[nodiscard]] int show_receipts(const Common& common, const std::string& ref);

} // namespace berth::cli

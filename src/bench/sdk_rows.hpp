#pragma once

#include "bench/context.hpp"
#include "bench/served.hpp"
#include "bench/table.hpp"

namespace berth::bench {

inline constexpr const char* kSdkSequential = "by the SDK, one after the other";
inline constexpr const char* kSdkStaggered = "by the SDK, one every 200 ms";
inline constexpr const char* kSdkBurst = "by the SDK, all at once";

/// Time to interactive as the unmodified npm `e2b` has it, in a node of its own; skipped, with the command
/// that installs it, where it is not there.
void add_sdk_rows(Context& context, Table& table, const Served& server, unsigned at_once);

} // namespace berth::bench

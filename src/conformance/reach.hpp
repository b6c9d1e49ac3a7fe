#pragma once

#include <string>
#include <vector>

#include "conformance/context.hpp"

/// Programs inside a sandbox that speak TCP. No image must have one: checks look for what there is.
namespace berth::conformance {

/// A command that connects and exits with 0 only when somebody answered; empty where the template has no
/// program for it.
[[nodiscard]] Result<std::vector<std::string>> connecting(Context& c, const std::string& host, unsigned port);

/// A command that listens on 127.0.0.1 (or ::1), says "listening", and answers each line with "heard LINE";
/// empty where the template has no program for it.
[[nodiscard]] Result<std::vector<std::string>> listening(Context& c, unsigned port, bool version_six = false);

} // namespace berth::conformance

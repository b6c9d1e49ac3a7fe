#pragma once

#include "base/json_reader.hpp"
#include "core/exec_spec.hpp"
#include "lifecycle/refusal.hpp"
#include "server/http/head.hpp"

/// What the calls about a command have in common, over whatever they come.
namespace berth::own {

[[nodiscard]] Result<TerminalSize> read_size(const json::Reader& reader);
/// The event to begin with: behind "after" or Last-Event-ID, else the first.
[[nodiscard]] Result<std::uint64_t> first_event(const http::RequestHead& head);

} // namespace berth::own

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "protocol/e2b/sandbox.hpp"

/// The control plane's objects from the other side: what a client sends, and what it is told.
namespace berth::e2b {

/// The body of POST /v2/sandboxes, or of POST /sandboxes for a server that has only that.
[[nodiscard]] std::string new_sandbox_body(const NewSandbox& wish, ApiVersion version);
/// {"timeout":n}
[[nodiscard]] std::string time_body(std::chrono::seconds time);
/// {"memory":b}
[[nodiscard]] std::string memory_body(bool keep);
/// {"name":"…"}, or {} without one.
[[nodiscard]] std::string name_body(std::string_view name);

/// Any of Sandbox, SandboxDetail and ListedSandbox; what an answer does not have stays as it is.
[[nodiscard]] Result<SandboxView> read_sandbox(std::string_view text);
[[nodiscard]] Result<std::vector<SandboxView>> read_sandboxes(std::string_view text);
/// The snapshotID of an answer.
[[nodiscard]] Result<std::string> read_snapshot(std::string_view text);
/// What a refusal says; empty when it says nothing that can be read.
[[nodiscard]] std::string read_message(std::string_view text);

/// "^[a-z0-9]+$", as every id of a sandbox must be: it becomes part of a path and of a host name.
[[nodiscard]] bool is_cloud_id(std::string_view id) noexcept;

} // namespace berth::e2b

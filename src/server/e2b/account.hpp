#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/exec_spec.hpp"
#include "core/record.hpp"
#include "server/gate/face.hpp"

namespace berth::e2b {

/// An account as a sandbox's own files have it now.
struct InsideAccount {
    std::string numbers; ///< "1000:1000": means the same whatever a template began with
    std::string home;
};
/// Of the text of /etc/passwd, which whoever works inside writes.
[[nodiscard]] std::optional<InsideAccount> find_account(std::string_view passwd, std::string_view name);

/// What a login would have set, below what the spec has already.
void name_user(ExecSpec& spec, const std::string& name, const std::string& home);

/// The command is to be run by this account of the sandbox, as its files are now.
Task<Status> run_as(gate::Ground& ground, SandboxRecord sandbox, std::string user, ExecSpec& spec);

} // namespace berth::e2b

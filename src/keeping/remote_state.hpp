#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "core/exec_spec.hpp"

namespace berth::keeping {

/// How an exec was started: what whoever goes on with it must know.
struct ExecStart {
    std::string user;
    bool input = false;
};

/// What this machine keeps of sandboxes that live elsewhere, in a folder of the state directory: a directory
/// for each instance with the logs of the execs that were started from here.
class RemoteState {
public:
    /// Refuses what is no name of an instance: it becomes part of a path.
    using Check = Status (*)(std::string_view id);

    /// Nothing is made until it is needed: not everybody uses this backend.
    RemoteState(const std::string& state_path, std::string_view folder, Check check)
        : path_(fmt::format("{}/{}", state_path, folder)), check_(check)
    {
    }

    /// Whether a sandbox was ever made from here.
    [[nodiscard]] bool used() const;

    /// NotFound when nothing was started from here.
    [[nodiscard]] Result<UniqueFd> instance(const std::string& id) const;
    [[nodiscard]] Result<UniqueFd> make_instance(const std::string& id) const;
    [[nodiscard]] Status remove_instance(const std::string& id) const;

    /// Held alone while one is made: "sbx_….2".
    [[nodiscard]] Result<UniqueFd> lock_making(const std::string& name) const;

    /// The directory itself, for what is read twice.
    [[nodiscard]] Result<UniqueFd> directory() const;

private:
    std::string path_;
    Check check_;
};

/// A directory below `instance` for one exec. Conflict: it was started before.
[[nodiscard]] Result<UniqueFd> make_exec(int instance, const std::string& exec, const ExecStart& start);
[[nodiscard]] Result<UniqueFd> open_exec(int instance, const std::string& exec);
[[nodiscard]] Status remove_exec(int instance, const std::string& exec);
[[nodiscard]] Result<ExecStart> read_start(int exec_directory);

/// Whoever has it alone writes the log. An empty descriptor: somebody else does.
[[nodiscard]] Result<UniqueFd> claim_log(int exec_directory);

} // namespace berth::keeping

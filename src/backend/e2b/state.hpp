#pragma once

#include <string>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "core/exec_spec.hpp"

namespace berth::e2b_client {

/// How an exec was started: what whoever goes on with it must know.
struct ExecStart {
    std::string user;
    bool input = false;
};

/// What this machine keeps of sandboxes that live elsewhere, below "e2b-client" in the state directory: a directory
/// for each instance with the logs of the execs that were started from here.
class LocalState {
public:
    [[nodiscard]] static Result<LocalState> open(const std::string& state_path);

    /// NotFound when nothing was started from here.
    [[nodiscard]] Result<UniqueFd> instance(const std::string& id) const;
    [[nodiscard]] Result<UniqueFd> make_instance(const std::string& id) const;
    [[nodiscard]] Status remove_instance(const std::string& id) const;
    /// Those that have a directory.
    [[nodiscard]] Result<std::vector<std::string>> instances() const;

    /// Held alone while one is made: "sbx_….2".
    [[nodiscard]] Result<UniqueFd> lock_making(const std::string& name) const;

    [[nodiscard]] int fd() const noexcept { return top_.get(); }

private:
    explicit LocalState(UniqueFd top) : top_(std::move(top)) {}
    UniqueFd top_;
};

/// A directory below `instance` for one exec. Conflict: it was started before.
[[nodiscard]] Result<UniqueFd> make_exec(int instance, const std::string& exec, const ExecStart& start);
[[nodiscard]] Result<UniqueFd> open_exec(int instance, const std::string& exec);
[[nodiscard]] Status remove_exec(int instance, const std::string& exec);
[[nodiscard]] Result<ExecStart> read_start(int exec_directory);

/// Whoever has it alone writes the log. An empty descriptor: somebody else does.
[[nodiscard]] Result<UniqueFd> claim_log(int exec_directory);

} // namespace berth::e2b_client

#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/capabilities.hpp"

/// One suite of scenarios for every backend. What a backend claims must work as the interface says; what it
/// does not claim must be refused as unsupported, and that is a check too.
namespace berth::conformance {

class Context;

/// What a backend must claim for a check to mean anything: an operation, or a rule it holds.
using Need = std::variant<Operation, policy::Feature>;

[[nodiscard]] std::string to_string(const Need& need);

/// One scenario. It fails with the Error it returns; the name is a sentence about behaviour.
struct Check {
    std::string_view group;
    std::string name;
    std::vector<Need> needs;
    std::function<Status(Context&)> run;
};

/// A subject that can be asked for by name.
struct Group {
    std::string_view name;
    std::string_view about;
    std::vector<Check> (*checks)();
};

/// In the order they run.
[[nodiscard]] const std::vector<Group>& groups();

// One each, in the file of its name.
[[nodiscard]] std::vector<Check> identity_checks();
[[nodiscard]] std::vector<Check> stop_checks();
[[nodiscard]] std::vector<Check> destroy_checks();
[[nodiscard]] std::vector<Check> pause_checks();
[[nodiscard]] std::vector<Check> argument_checks();
[[nodiscard]] std::vector<Check> output_checks();
[[nodiscard]] std::vector<Check> ending_checks();
[[nodiscard]] std::vector<Check> environment_checks();
[[nodiscard]] std::vector<Check> input_checks();
[[nodiscard]] std::vector<Check> log_checks();
[[nodiscard]] std::vector<Check> pty_checks();
[[nodiscard]] std::vector<Check> file_checks();
[[nodiscard]] std::vector<Check> path_checks();
[[nodiscard]] std::vector<Check> mount_checks();
[[nodiscard]] std::vector<Check> archive_checks();
[[nodiscard]] std::vector<Check> hostile_archive_checks();
[[nodiscard]] std::vector<Check> snapshot_checks();
[[nodiscard]] std::vector<Check> fork_checks();
[[nodiscard]] std::vector<Check> port_checks();
[[nodiscard]] std::vector<Check> watch_checks();
[[nodiscard]] std::vector<Check> network_checks();
[[nodiscard]] std::vector<Check> policy_checks();
[[nodiscard]] std::vector<Check> resume_checks();
[[nodiscard]] std::vector<Check> keeping_checks();

} // namespace berth::conformance

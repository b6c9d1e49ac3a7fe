#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "policy/demand.hpp"

namespace berth {

/// What a backend may or may not be able to do beside what every backend does.
enum class Operation {
    Pty,        ///< a terminal for an exec
    Users,      ///< an exec as another user than the sandbox's
    ExecPolicy, ///< an exec with a policy narrower than the sandbox's
    Stop,       ///< end the processes, keep the files, start again
    Pause,      ///< freeze and resume with memory kept
    Snapshot,   ///< keep the files, make further sandboxes from them
    Ports,      ///< dial a port inside
    Watch,      ///< be told of changes of files
    Archive,    ///< whole trees in and out
    Attach,     ///< borrow an instance that somebody else made
};

[[nodiscard]] std::string_view to_string(Operation operation) noexcept;
[[nodiscard]] std::vector<Operation> all_operations();

/// What a backend can do here: probed on the machine, never assumed from its name.
struct Capabilities {
    policy::Holdings holds; ///< at which tier each kind of rule is held
    std::set<Operation> operations;
    std::vector<std::string> snapshots; ///< kinds it makes, the best first
    std::vector<std::string> restores;  ///< kinds it can start from
    bool late_output = true; ///< what is printed after the exit of a command, by what it left behind, is told

    [[nodiscard]] bool can(Operation operation) const { return operations.contains(operation); }
};

/// The refusal of what `backend` cannot do.
[[nodiscard]] std::unexpected<Error> unsupported(Operation operation, std::string_view backend);

} // namespace berth

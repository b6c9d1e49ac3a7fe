#pragma once

#include <string>

namespace berth::sys {

/// Which filter: what a sandbox may not ask of the kernel. See docs/explain/threat-model.md.
struct FilterOptions {
    bool refuse_set_id = false;    ///< no set-id bit can be made: there is a writable host directory
    bool allow_clone3 = false;     ///< the keeper needs it to place execs in v2 groups
    bool allow_namespaces = false; ///< nested sandboxes and browsers, asked for in the policy
    bool refuse_unix = false;      ///< no unix sockets by name: the host's own files are in view
    bool supervise_paths = false;  ///< calls that take a path wait for a supervisor: there are deny patterns
};

/// The filter as the bytes of a BPF program: architecture check, then a balanced tree over the
/// sorted numbers. The kernel runs the program once for every number when it is loaded, so a chain
/// of compares would cost a millisecond where the tree costs a tenth. Built once of each kind.
[[nodiscard]] const std::string& seccomp_filter(const FilterOptions& options);

/// What is missing here for a filter that asks a supervisor; empty: nothing.
[[nodiscard]] std::string lacks_notification();

} // namespace berth::sys

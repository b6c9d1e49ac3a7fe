#pragma once

#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "backend/local/state_dir.hpp"

namespace berth::bench {

/// Everything of ours that exists at a moment: processes, mounts, control groups, descriptors (and
/// through them namespaces), entries of the state directory. What others do meanwhile is not in it.
///
/// A namespace lives by a process, a mount or a descriptor. This process is a subreaper, so no
/// descendant escapes the first; the other two are counted too.
class Census {
public:
    /// `ids` are the sandboxes this program made.
    [[nodiscard]] static Census take(const local::StateDir& state,
                                     const std::set<std::string, std::less<>>& ids);

    /// What is here and was not in `before`, each by name: "process 4711 (sleep)".
    [[nodiscard]] std::vector<std::string> since(const Census& before) const;

private:
    std::set<std::string> things_;
};

/// What is left over against `before`. The kernel tears down some things after the process that
/// held them was reaped, so it looks again until `patience` is over.
[[nodiscard]] std::vector<std::string> leftovers(const Census& before, const std::function<Census()>& take,
                                                 std::chrono::milliseconds patience);

} // namespace berth::bench

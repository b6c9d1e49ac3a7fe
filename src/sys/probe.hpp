#pragma once

#include <string>
#include <vector>

namespace berth::sys {

/// One facility of the kernel, tried and not guessed from a version number.
struct Probed {
    std::string name;
    bool available = false;
    std::string detail; ///< what was found, or the error of the trial
};

/// What this kernel lets this user do: the calls a launch is made of, user namespaces, overlay and
/// its options, landlock, seccomp. Leaves nothing behind. Control groups tell for themselves
/// (CgroupTree::of), and so do idmapped mounts, which depend on a file system.
[[nodiscard]] std::vector<Probed> probe();

/// One of them by name; absent means it could not even be asked.
[[nodiscard]] const Probed* find(const std::vector<Probed>& all, const std::string& name);

} // namespace berth::sys

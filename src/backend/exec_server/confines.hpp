#pragma once

#include <string>

#include "backend/exec_server/server.hpp"
#include "policy/bind.hpp"

namespace berth::exec_server {

/// Where the parts of one sandbox lie on the server's machine.
struct Layout {
    std::string root;  ///< of all sandboxes
    std::string own;   ///< of this one: what follows but the relay, and its record
    std::string work;  ///< ":workspace_roots" and ":home"
    std::string tmp;   ///< for a sandbox with a private root
    std::string relay; ///< our program there, in a directory of its own; may be empty
};

[[nodiscard]] Layout layout_of(const std::string& root, const std::string& native, std::string relay);

/// What the symbols of a policy stand for there.
[[nodiscard]] policy::Roots roots_of(const Layout& layout);

/// Whether somebody asked for no sandbox at all, in so many words: full access, with the server's network.
[[nodiscard]] bool unconfined(const policy::Policy& policy);

/// The intent that carries a policy, symbols left symbolic. Unsupported: the protocol has no words for it.
/// `around` is the policy of the sandbox where `policy` is that of one command of it. `deeper` are protected
/// names below the top of the workspace, which the protocol can only be told one by one.
[[nodiscard]] Result<Confines> confine(const policy::Policy& policy, const policy::Policy& around,
                                       const Layout& layout, const std::vector<std::string>& deeper = {});

/// Those of the policy's protected names that are there now below the top of the workspace. Refuses where not
/// everything can be looked at.
[[nodiscard]] Result<std::vector<std::string>>
find_deeper(Server& server, const policy::Policy& policy, const policy::Policy& around, const Layout& layout);

/// Of our own work below the root: nothing but the root is writable or, beside programs, seen.
[[nodiscard]] Confines confine_own(const std::string& root);
/// To remove what has a name that the server protects by itself: an entry of its own lifts that.
[[nodiscard]] Confines confine_protected(const std::string& path);

} // namespace berth::exec_server

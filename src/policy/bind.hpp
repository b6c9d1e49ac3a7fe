#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "policy/policy.hpp"

namespace berth::policy {

/// The executor's own places, to which symbols are bound.
struct Roots {
    std::vector<std::string> workspaces; ///< absolute paths inside the sandbox; may be empty
    std::vector<std::string> tmpdirs{"/tmp", "/var/tmp"};
    std::vector<std::string> minimal{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc"};
    std::string home = "/home/user";
};

/// A file rule after binding: an absolute path, or an absolute pattern.
struct BoundRule {
    Access access = Access::Read;
    std::string path;    ///< empty when it is a pattern
    std::string pattern; ///< empty when it is a path
    std::string source;  ///< the rule as written, for messages

    /// The path, or the directory every match of the pattern lies in.
    [[nodiscard]] std::string_view place() const;
};

/// File rules with every symbol replaced. Empty when the policy has none. A symbol with no place
/// here (":workspace_roots" without a workspace) binds to nothing and is listed in `unbound`.
struct BoundFiles {
    std::vector<BoundRule> rules; ///< shortest path first, patterns last; no target twice
    std::vector<std::string> protected_names;
    std::vector<std::string> unbound;

    [[nodiscard]] bool empty() const noexcept { return rules.empty(); }
    /// What the rules say of an absolute path: the most specific rule that covers it decides, a
    /// pattern is more specific than a path, the lesser access wins a tie (so `Deny` wins every
    /// one), nothing covers it: Deny. A protected name below a writable rule's own place caps the
    /// answer at Read. Without any rule the private root is open: Write.
    [[nodiscard]] Access decide(std::string_view path) const;
};

/// Refuses malformed rules (a policy need not come from the parser), protected names without a
/// write rule, and rules of which none has a place here: nothing left would read as "no rules".
[[nodiscard]] Result<BoundFiles> bind_files(const Policy& policy, const Roots& roots);

/// True when `path` matches `pattern`: "**" is any number of components, at the end at least one.
/// Never worse than the product of both lengths.
[[nodiscard]] bool glob_match(std::string_view pattern, std::string_view path);
/// True when `path` or a directory above it matches.
[[nodiscard]] bool glob_covers(std::string_view pattern, std::string_view path);

/// An absolute path without ".", "..", double or trailing slashes; refuses NUL and relative paths,
/// and a ".." that would climb above the root.
[[nodiscard]] Result<std::string> normalise(std::string_view path);

/// Checks that `inner` allows nothing that `outer` does not: no wider file access, network, limits,
/// privileges. The error (Denied) names each rule that is wider. A limit `inner` does not set is the
/// outer one's, which holds around it. Patterns are compared soundly, not completely: what cannot
/// be shown to be narrower (another spelling of the same set) is refused.
[[nodiscard]] Status check_narrower(const Policy& inner, const Policy& outer, const Roots& roots);

} // namespace berth::policy

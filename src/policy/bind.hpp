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
};

/// File rules with every symbol replaced. Empty when the policy has none. A symbol with no place
/// here (":workspace_roots" without a workspace) binds to nothing and is listed in `unbound`.
struct BoundFiles {
    std::vector<BoundRule> rules; ///< shortest path first, patterns last
    std::vector<std::string> protected_names;
    std::vector<std::string> unbound;

    [[nodiscard]] bool empty() const noexcept { return rules.empty(); }
    /// What the rules say of an absolute, normalised path: the most specific rule that covers it
    /// decides, a pattern is more specific than a path, `Deny` wins a tie, nothing covers it: Deny.
    /// A protected name in the path caps the answer at Read.
    [[nodiscard]] Access decide(std::string_view path) const;
};

[[nodiscard]] Result<BoundFiles> bind_files(const Policy& policy, const Roots& roots);

/// True when `path` matches `pattern` ("**" across components).
[[nodiscard]] bool glob_match(std::string_view pattern, std::string_view path);

/// An absolute path without ".", "..", double or trailing slashes; refuses NUL and relative paths,
/// and a ".." that would climb above the root.
[[nodiscard]] Result<std::string> normalise(std::string_view path);

/// Checks that `inner` allows nothing that `outer` does not: no wider file access, network, limits,
/// privileges. The error names each rule that is wider.
[[nodiscard]] Status check_narrower(const Policy& inner, const Policy& outer, const Roots& roots);

} // namespace berth::policy

#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"

/// The portable intent: what a sandbox, or one command in it, may touch. It means the same on
/// every backend and crosses the wire symbolic; the executor binds the symbols to its own roots.
namespace berth::policy {

/// What may be done with a file. Weakest grant first, so `<` reads "allows less than".
enum class Access { Deny, Read, Write };

/// A place each executor knows under a path of its own.
enum class Symbol {
    Root,           ///< ":root", the whole file system
    Minimal,        ///< ":minimal", what a program needs to start: /usr, /bin, /lib*, /etc
    WorkspaceRoots, ///< ":workspace_roots", every workspace directory
    Tmpdir,         ///< ":tmpdir", /tmp and /var/tmp
    Home,           ///< ":home", the user's home directory
};

/// A symbol, or a place or pattern below it: ":workspace_roots/build", ":workspace_roots/**/.env".
struct Symbolic {
    Symbol symbol = Symbol::Root;
    std::string below; ///< relative, normalised, without a leading slash; empty for the place itself
    bool operator==(const Symbolic&) const = default;
};
/// An absolute path, normalised: no ".", "..", double or trailing slash. Taken literally: in a
/// document "*", "?" and "[" make a pattern, so there such a path is written "[*]" and reads as one.
struct Path {
    std::string text;
    bool operator==(const Path&) const = default;
};
/// An absolute or "**/"-led pattern: "*" and "?" within a component (leading dots too), "**" as a
/// whole component across, "[a-z]" and "[!a-z]" sets. It covers what it matches and all below that.
struct Glob {
    std::string text;
    bool operator==(const Glob&) const = default;
};
using Target = std::variant<Symbolic, Path, Glob>;

/// One entry of the file rules. The most specific entry that covers a path decides; `Deny` wins a tie.
struct FileRule {
    Access access = Access::Read;
    Target target;
    bool operator==(const FileRule&) const = default;
};

enum class Network {
    Off,   ///< own namespace: its own loopback works, nothing else
    Allow, ///< a list of destinations, through the egress proxy
    Open,  ///< the internet, never the host's loopback, private or metadata addresses
    Host,  ///< the host's own network; only by the operator's word
};

/// What a network of kind `Allow` may reach.
struct NetworkRule {
    std::string host;                 ///< "pypi.org", "*.npmjs.org", an address or a CIDR block
    std::vector<std::uint16_t> ports; ///< empty: every port
    std::vector<std::string> methods; ///< empty: every HTTP method
    bool operator==(const NetworkRule&) const = default;
};

struct Limits {
    std::optional<Bytes> memory;
    std::optional<double> cpus;
    std::optional<std::uint64_t> pids;
    std::optional<Bytes> disk; ///< what the sandbox may write to its private file system
    std::optional<std::uint64_t> open_files;
    std::optional<std::chrono::nanoseconds> wall_time;
    bool operator==(const Limits&) const = default;
};

/// Whether set-id programs inside may raise to the sandbox's own root.
enum class Privileges { None, Sudo };

struct Policy {
    std::string name; ///< a preset's name, or what the document says; only for people
    /// Without rules the private root is readable and writable. With rules, what no rule covers
    /// cannot be reached.
    std::vector<FileRule> files;
    /// Names that stay read-only wherever they stand below a writable rule: ".git", ".codex".
    /// Compared byte by byte; where the file system folds case, the executor folds too.
    std::vector<std::string> protected_names;
    Network network = Network::Off;
    std::vector<NetworkRule> allow;
    Limits limits;
    Privileges privileges = Privileges::None;
    bool nested_namespaces = false;   ///< browsers and nested sandboxes need them
    std::vector<std::string> devices; ///< host devices beside the usual six
    bool operator==(const Policy&) const = default;
};

/// Names of the presets, in the order help shows them: sandbox (the default), read-only,
/// workspace-write, full-access.
[[nodiscard]] std::vector<std::string> preset_names();
[[nodiscard]] Result<Policy> preset(std::string_view name);

[[nodiscard]] std::string_view to_string(Access access) noexcept;
[[nodiscard]] std::string_view to_string(Network network) noexcept;
[[nodiscard]] std::string to_string(const Target& target);

} // namespace berth::policy

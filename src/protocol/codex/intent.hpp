#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/json_reader.hpp"

/// What Codex asks of whoever runs a command or touches a file for it: the portable sandbox intent, still
/// symbolic. The executor binds it.
namespace berth::codex {

enum class FileAccess { Deny, Read, Write };
enum class NetworkIntent { Restricted, Enabled };

/// Places each executor knows by itself.
enum class Special {
    Root,
    Minimal,
    ProjectRoots,
    Tmpdir,
    SlashTmp,
    Unknown, ///< of a newer client; grants nothing
};

struct SpecialPath {
    Special kind = Special::Root;
    std::string subpath; ///< of ProjectRoots; relative, may be empty
    bool operator==(const SpecialPath&) const = default;
};
struct ExactPath {
    std::string path; ///< native
    bool operator==(const ExactPath&) const = default;
};
/// Denies only. Absolute, or relative to the policy's directory; as policies write patterns.
struct GlobPath {
    std::string pattern;
    bool below_roots = false; ///< relative to each workspace root
    bool operator==(const GlobPath&) const = default;
};

struct IntentEntry {
    std::variant<SpecialPath, ExactPath, GlobPath> path;
    FileAccess access = FileAccess::Read;
    bool skip_missing = false;
    bool operator==(const IntentEntry&) const = default;
};

struct Permissions {
    enum class Kind {
        Managed,  ///< exactly this
        Disabled, ///< no sandbox wanted
        External, ///< files are held by somebody else; the network is not
    };
    Kind kind = Kind::Managed;
    bool unrestricted_files = false;
    std::vector<IntentEntry> entries;
    NetworkIntent network = NetworkIntent::Restricted;
    bool operator==(const Permissions&) const = default;
};

/// "SandboxContext" of the wire.
struct Intent {
    Permissions permissions;
    std::optional<std::string> cwd;           ///< native
    std::vector<std::string> workspace_roots; ///< native
    bool roots_given = false;                 ///< older clients send none
    bool operator==(const Intent&) const = default;
};

/// Strict: what is not known is an error, never "no restriction". Unsupported: a path of another platform.
[[nodiscard]] Result<Intent> read_intent(const json::Reader& reader);
/// The wire's form of it.
[[nodiscard]] json::Object write_intent(const Intent& intent);

} // namespace berth::codex

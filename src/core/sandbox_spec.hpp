#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.hpp"
#include "core/volume.hpp"
#include "policy/policy.hpp"

namespace berth {

/// What the root file system starts from.
struct Template {
    enum class Kind {
        Host,      ///< a private skeleton over the host's own programs
        Live,      ///< the host's view, read-only, writes where the policy says
        Directory, ///< a root file system in a directory
        Tar,       ///< a root file system, or an image, in a tar file
        Oci,       ///< an image: an OCI layout, or an archive of one or of docker's
        Image,     ///< an image by the name that an engine or registry has for it
    };
    Kind kind = Kind::Host;
    std::string path; ///< of Directory, Tar and Oci; the name of Image
    std::string tag;  ///< of Oci: which of several images; may be empty
    bool operator==(const Template&) const = default;
};

[[nodiscard]] std::string to_string(const Template& root);
/// "host", "live", "dir:PATH", "tar:PATH", "oci:PATH[:TAG]" (also "oci-archive:", "docker-archive:"),
/// "image:NAME", or a path that tells its kind itself.
[[nodiscard]] Result<Template> parse_template(std::string_view text);

/// A directory or file of the host shown inside.
struct Mount {
    enum class Mode {
        ReadOnly,
        ReadWrite,
        Copy, ///< a private copy, thrown away with the sandbox
    };
    std::string source; ///< absolute on the host
    std::string target; ///< absolute inside
    Mode mode = Mode::ReadOnly;
    bool workspace = false; ///< one of ":workspace_roots"
    bool operator==(const Mount&) const = default;
};

[[nodiscard]] std::string_view to_string(Mount::Mode mode) noexcept;
/// "SRC:DST[:ro|:rw|:copy]" of --mount; default ro.
[[nodiscard]] Result<Mount> parse_mount(std::string_view text, std::string_view cwd);
/// "DIR[:rw|:ro|:copy]" of --workspace; default rw, shown at the same path.
[[nodiscard]] Result<Mount> parse_workspace(std::string_view text, std::string_view cwd);

/// What happens when a limit cannot be enforced on this machine.
enum class LimitMode {
    Enforce,    ///< the sandbox is refused
    BestEffort, ///< asked for in writing: it starts, and the answer says what is not held
};

/// What was asked for.
struct SandboxSpec {
    std::string id; ///< "sbx_…"; given by the caller so that creating again finds the same
    std::string name;
    Template root;
    policy::Policy policy;
    LimitMode limit_mode = LimitMode::Enforce;
    std::vector<Mount> mounts;
    std::vector<Volume> volumes;
    std::map<std::string, std::string> env;
    std::string user = "user";
    std::string workdir;  ///< empty: the first workspace, else the user's home
    std::string hostname; ///< empty: as host_name() has it
    std::map<std::string, std::string> labels;
    bool operator==(const SandboxSpec&) const = default;
};

/// Refuses what can never succeed, naming each object: bad names, a mount over "/", two mounts on
/// one target, a volume above or below another mount, a source that does not exist, NUL bytes, an
/// environment over the kernel's limit.
[[nodiscard]] Status validate(const SandboxSpec& spec);

/// A sandbox's name can be its host name: letters, digits and '-'.
[[nodiscard]] Status check_sandbox_name(std::string_view name);
/// The label of a fork: the sandbox it was forked from.
inline constexpr std::string_view kForkLabel = "berth.fork-of";
/// What the sandbox calls itself: as was asked, else its name; a fork never as its source.
[[nodiscard]] std::string host_name(const SandboxSpec& spec);

/// NAME=value pairs as a process gets them; refuses what no environment can carry.
[[nodiscard]] Status validate_env(const std::map<std::string, std::string>& env);

} // namespace berth

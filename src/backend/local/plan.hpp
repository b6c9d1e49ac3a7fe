#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/local/identity.hpp"
#include "backend/local/state_dir.hpp"
#include "backend/local/submounts.hpp"
#include "base/unique_fd.hpp"
#include "core/sandbox_spec.hpp"
#include "image/oci_document.hpp"
#include "keeping/file_rules.hpp"
#include "keeping/mount_source.hpp"
#include "keeping/supervision.hpp"
#include "policy/bind.hpp"
#include "sys/netns_beside.hpp"
#include "sys/seccomp.hpp"
#include "sys/step_list.hpp"

namespace berth::local {

/// Where the root file system of a sandbox comes from, as directories of the host.
struct RootLayers {
    Template::Kind kind = Template::Kind::Host;
    std::string root;     ///< lower of /: the skeleton, or the template's own root; empty for Live
    std::string usr;      ///< lower of a second overlay on /usr; empty where the root has its own
    std::string usr_mask; ///< whiteouts over `usr`; may be empty
    bool devices = false; ///< /dev of the root holds the usual nodes
    std::string etc_root; ///< a directory whose etc/passwd names the accounts
    std::string identity; ///< of the contents: equal where frozen layers fit on top
    std::vector<std::string> more_roots; ///< of an image: further lowers of /, each below the one before
    std::optional<image::oci::Defaults> image; ///< of an image: what it asks for its processes

    /// Where accounts and the like are looked up, the topmost first.
    [[nodiscard]] std::vector<std::string> stack() const;
};

/// A host object to be shown inside, held by descriptor since it was checked.
struct Bind {
    UniqueFd source; ///< O_PATH
    keeping::Pin pin;
    std::string path; ///< where it really lies on the host
    std::string target;
    Mount::Mode mode = Mount::Mode::ReadOnly;
    bool file = false;
    bool workspace = false;
    std::vector<Submount> covered; ///< is mounted in it, and not shown
    std::string hide;              ///< below it: the state directory, which nobody inside may see
    bool volume = false;           ///< holds the sandbox's own ids on disk, whatever range it runs in
    /// Root: a detached clone with its attributes set, ready to be attached. An ordinary user can
    /// clone only inside his own namespace, so there the steps do it.
    UniqueFd tree;
};

/// How the network of the sandbox is kept apart.
enum class NetMode {
    New,    ///< a namespace made with the clone, or beside it
    Pooled, ///< a ready-made one
    Host,   ///< shared, by the operator's word
};

/// All that was decided before a launch. The step builders below read it; it outlives the launch.
struct Plan {
    const SandboxSpec* spec = nullptr;
    const StateDir* state = nullptr;
    const Identity* identity = nullptr;
    RootLayers layers;
    std::span<const Bind> binds;
    policy::BoundFiles files;
    std::string home; ///< of the default user, and his id inside: made where a template lacks it
    std::uint32_t home_owner = kUserId;
    NetMode net = NetMode::New;
    UniqueFd net_namespace;         ///< Pooled
    sys::NetNamespaceBeside beside; ///< New, as root: is being made
    Bytes disk;                     ///< size of the throw-away file system
    std::vector<std::string> stack; ///< frozen layers between the template and the upper, topmost first
    std::vector<Submount>
        in_usr; ///< is mounted in /usr, which therefore has no layer of its own (bound_usr.hpp)
    std::string durable_upper; ///< a directory of the state directory for uppers; empty: throw-away
    std::vector<int> v1_tasks; ///< `tasks` files of v1 groups to enter; borrowed
    bool kept = false;         ///< a keeper, not a one-shot init
    /// The keeper places execs in v2 groups by clone3; each exec then loses it by a filter of its own.
    bool keeper_clones = false;
    std::vector<int> keep_open; ///< descriptors the first process holds for as long as it lives; borrowed
    int landlock_abi = 0;
    /// Absolute paths inside of what has a protected name and lies below a writable rule.
    std::vector<std::string> protected_paths;
    const Supervision* supervision = nullptr; ///< holds the deny patterns, where there are any
};

/// Directories of the host that a live view shows empty, and private.
inline constexpr const char* kHiddenInLive[] = {"run", "tmp", "var/tmp", "sys"};

// The order of local-isolation: each adds its steps. `parent` is a pidfd of the launcher.
void add_identity_first(sys::StepList& list, const Plan& plan, sys::Slot parent);
void add_root(sys::StepList& list, const Plan& plan, sys::Slot parent, sys::Slot user_namespace);
void add_proc(sys::StepList& list, const Plan& plan, sys::Slot parent);
void add_dev(sys::StepList& list, const Plan& plan, sys::Slot parent);
void add_binds(sys::StepList& list, const Plan& plan, sys::Slot parent);
/// What the file rules of a plan are applied to. Refers to the plan.
[[nodiscard]] RuleSite site_of(const Plan& plan);
/// Hostname, limits, identity, capabilities, landlock, filter: everything from step 10 on but the exec.
void add_walls(sys::StepList& list, const Plan& plan, sys::Slot parent, sys::Slot user_namespace);

/// What the filter refuses beside what it always does.
[[nodiscard]] sys::FilterOptions filter_of(const Plan& plan);

/// What the mounts of a spec were when its sandbox was made; null: they are found now.
using Pins = std::vector<keeping::Pin>;
/// Opens what the spec mounts, volumes last, to be looked at.
[[nodiscard]] Result<std::vector<Bind>> open_sources(const SandboxSpec& spec, const StateDir& state,
                                                     const Pins* pins);
/// Opens and checks the mounts and volumes of the spec. A new volume is given to `user`.
[[nodiscard]] Result<std::vector<Bind>> open_binds(const SandboxSpec& spec, const StateDir& state,
                                                   const Identity& identity, const Account& user,
                                                   const Pins* pins);

/// Directories for the spec's template, made on first use.
[[nodiscard]] Result<RootLayers> resolve_template(const StateDir& state, const Template& root,
                                                  const std::function<void(std::string_view)>& progress);

} // namespace berth::local

#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "core/backend.hpp"
#include "core/image_defaults.hpp"

/// Containers as the engine writes and reads them: documents to structs and back, no input or output.
namespace berth::docker {

namespace label {
inline constexpr const char* kId = "berth.sandbox.id";
inline constexpr const char* kKey = "berth.sandbox.key";
inline constexpr const char* kSpecHash = "berth.sandbox.spec-hash";
inline constexpr const char* kOwner = "berth.sandbox.owner";
inline constexpr const char* kCreated = "berth.sandbox.created";
inline constexpr const char* kGeneration = "berth.sandbox.generation";
inline constexpr const char* kFormer = "berth.sandbox.former"; ///< the id of the one it goes on from
inline constexpr const char* kExoKey = "exo.sandbox.key";
inline constexpr const char* kExoHash = "exo.sandbox.spec-hash";
inline constexpr const char* kExoPid = "exo.sandbox.owner-pid";
} // namespace label

/// Ids of an engine are hexadecimal digits; they become parts of requests.
[[nodiscard]] Status check_engine_id(std::string_view id);

/// One container, as inspecting it tells.
struct Container {
    std::string id;
    std::string name;
    std::string status; ///< created, running, paused, restarting, removing, exited, dead
    bool running = false;
    bool paused = false;
    int pid = 0;
    std::int64_t created = 0; ///< in seconds; of a list only
    std::string network;      ///< its mode: none, host, bridge, the name of one
    bool no_new_privileges = false;
    std::string image; ///< its id
    std::string image_name;
    std::map<std::string, std::string> labels;
    ImageDefaults defaults;
    std::string upper; ///< where the engine keeps what was changed of its root; empty: it does not say
    std::vector<std::string> volumes; ///< that the image asked for: no snapshot has what lies in them
    std::vector<Mount> mounts;        ///< volumes, too
    policy::Limits limits;
};
[[nodiscard]] Result<Container> parse_container(const json::Value& document);

/// The same from a list: without pid and defaults.
[[nodiscard]] Result<std::vector<Container>> parse_containers(const json::Value& document);

[[nodiscard]] ImageDefaults parse_defaults(const json::Value& config);

/// Where the keeper, its socket and nothing else of ours is shown inside.
inline constexpr const char* kInside = "/.berth";
/// The same for sockets alone, in containers of an engine on another machine.
inline constexpr const char* kRunInside = "/.berth/run";

/// What the engine is asked to make.
struct ContainerWish {
    const SandboxSpec& spec;
    const InstanceLabels& labels;
    std::string image;      ///< what to run, by its id: a tag may move
    std::string image_name; ///< what was asked for
    std::string shown;      ///< the host's directory that has the keeper; empty: it is put in, elsewhere
    unsigned owner = 0;     ///< the user outside that may talk to the keeper
    std::string machine_id; ///< the host's file that is shown as /etc/machine-id; empty: the root's own
};
[[nodiscard]] json::Object container_document(const ContainerWish& wish);
/// Limits as the engine takes them, for a container that is to be or one that is.
[[nodiscard]] json::Object limits_document(const policy::Limits& limits);

/// Our labels and exo's; the sandbox's own ones beside them.
[[nodiscard]] std::map<std::string, std::string>
labels_of(const SandboxSpec& spec, const InstanceLabels& labels, const std::string& image);
/// What a container's labels say; nothing when it is not one of ours.
[[nodiscard]] std::optional<std::pair<SandboxHandle, InstanceLabels>>
identity_of(const std::map<std::string, std::string>& labels);

/// The name of the container of an instance: one in an engine, so that two makers make one.
[[nodiscard]] std::string container_name(const std::string& native);

} // namespace berth::docker

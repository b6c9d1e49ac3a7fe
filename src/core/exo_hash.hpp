#pragma once

#include <string>
#include <vector>

/// The hashes by which exo finds its sandboxes: SipHash-1-3 without a key, as its language's runtime
/// computes it. Only for adopting its sandboxes and being adopted; our own is core/spec_hash.hpp.
namespace berth::exo {

struct MountPoint {
    std::string host;
    std::string guest;
    bool writable = false;
    bool internal = false; ///< hidden from prompts
};

struct DurableFileSystem {
    std::string name;
    std::string path;
    bool writable = false;
};

struct Spec {
    std::string image;
    std::vector<MountPoint> mounts;
    std::vector<DurableFileSystem> file_systems;
    bool network = true;
    std::string workdir;
};

enum class Scope { Agent, Conversation };

/// 16 hexadecimal digits: the label `exo.sandbox.spec-hash`.
[[nodiscard]] std::string spec_hash(const Spec& spec);

/// 16 hexadecimal digits: the middle of a container's name.
[[nodiscard]] std::string key_hash(Scope scope, const std::string& owner, const std::string& sandbox);

} // namespace berth::exo

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/backend.hpp"

namespace berth {

/// What a proof of a policy must know of the inside of a sandbox and no specification says, because the
/// backend has no mounts: a sandbox that is a few directories of a whole machine.
struct Terrain {
    std::vector<std::string> workspaces; ///< what ":workspace_roots" stands for there, beside mounts
    std::vector<std::string> tmpdirs;    ///< what ":tmpdir" stands for; empty: what it always does
    std::vector<std::string> shown;      ///< what every command sees, whatever its policy says
    std::string temporary;               ///< of a private root; empty: "/tmp"
    bool whole_machine = false;          ///< ":root" is a machine's own, with what others keep there
    bool cut_by_namespace = false;       ///< no network means no interface, and no sockets are promised
    bool ours_alone = false; ///< made for a proof: nobody sees a name that is made there for a moment

    std::string secret; ///< a file of that machine which no policy shows; empty: none
    std::string word;   ///< what it holds
    std::string host;   ///< somebody who listens outside, by address; empty: none
    std::uint16_t port = 0;
};

/// A backend that tells it.
class TellsTerrain {
public:
    virtual ~TellsTerrain() = default;
    virtual Task<Result<Terrain>> terrain(SandboxHandle sandbox) = 0;
};

} // namespace berth

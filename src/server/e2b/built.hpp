#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "protocol/e2b/template.hpp"

namespace berth::e2b {

/// What a template gives the sandboxes made from it, beside its files.
struct BuildDefaults {
    std::string user = "user";
    std::string workdir; ///< empty: the user's home
    std::map<std::string, std::string> env;
    std::string start_cmd;     ///< runs in each of them; may be empty
    std::string ready_cmd;     ///< polled until it succeeds; may be empty
    bool interpreter = false;  ///< it began with the code interpreter's template
    bool own_accounts = false; ///< it began with an image: only its own files know who `user` is
};

enum class BuildState { Waiting, Building, Ready, Error };
[[nodiscard]] std::string_view to_string(BuildState state) noexcept;

struct Build {
    std::string id; ///< a UUID
    BuildState state = BuildState::Waiting;
    std::vector<std::string> tags; ///< that it gets when it is ready
    std::string snapshot;          ///< of a ready one; empty: removed, as no tag named it any more
    std::string failure;           ///< of one in error
    std::string failed_step;
    WallTime created{};
    WallTime finished{};
    BuildDefaults defaults;

    std::vector<BuildLine> log; ///< of one that ended before this server began: in a file
    bool log_full = false;
    bool cancelled = false;
};
using BuildPtr = std::shared_ptr<Build>; ///< shared: a build under way outlives its template's place

/// A template of a tenant: a name, its builds, and which of them each tag means.
struct Built {
    std::string id;
    std::string tenant;
    std::string alias;
    unsigned cpus = 0; ///< as was asked; 0: nothing was
    unsigned memory_mb = 0;
    WallTime created{};
    WallTime updated{};
    std::map<std::string, std::string> tags; ///< to builds that are ready
    std::map<std::string, WallTime> tagged;  ///< since when
    std::vector<BuildPtr> builds;            ///< oldest first

    std::uint64_t spawned = 0; ///< by this server
    WallTime last_spawned{};

    [[nodiscard]] BuildPtr build(std::string_view id) const;
};
using BuiltPtr = std::shared_ptr<Built>;

/// As it is kept on disk, without logs.
[[nodiscard]] std::string render(const Built& built);
[[nodiscard]] Result<Built> parse_built(std::string_view text);

} // namespace berth::e2b

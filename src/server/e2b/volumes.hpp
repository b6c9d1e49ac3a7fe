#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/e2b/sandbox.hpp"
#include "server/gate/documents.hpp"
#include "server/gate/face.hpp"

namespace berth::e2b {

/// A volume of a tenant. The first part is kept on disk, before its directory is made.
struct KeptVolume {
    std::string id;
    std::string tenant;
    std::string name;
    std::string token;  ///< for its files
    bool going = false; ///< being removed; one found so is removed at the next start

    std::shared_ptr<bool> pin = std::make_shared<bool>(true); ///< held while somebody gets it
};
using VolumePtr = std::shared_ptr<KeptVolume>; ///< shared: a request outlives its place in the map

/// The volumes of this protocol's clients: directories that outlive sandboxes, each of one tenant. For the
/// server's one thread.
class Volumes {
public:
    explicit Volumes(gate::Ground& ground);

    Task<Status> load();
    /// Conflict: the tenant has one of that name.
    Task<Result<VolumePtr>> create(std::string name, std::string tenant);
    /// Conflict: a sandbox has it.
    Task<Status> remove(VolumePtr volume);

    [[nodiscard]] std::vector<VolumePtr> all(std::string_view tenant) const;
    [[nodiscard]] Result<VolumePtr> of_tenant(std::string_view id, std::string_view tenant) const;
    /// Whoever's it is; null when there is none.
    [[nodiscard]] VolumePtr find(std::string_view id) const;

    /// What a sandbox is made with. None of them goes while `pins` live.
    struct Mounts {
        std::vector<Volume> volumes;
        std::vector<std::shared_ptr<bool>> pins;
    };
    /// Invalid: the tenant has no such volume, or the path is none.
    [[nodiscard]] Result<Mounts> mounts(const std::vector<VolumeMount>& wishes,
                                        std::string_view tenant) const;

    /// Its directory, made where it is missing. Blocks.
    [[nodiscard]] static Result<UniqueFd> open(const std::string& root, const std::string& id);
    [[nodiscard]] gate::Ground& ground() noexcept { return ground_; }

private:
    Task<Status> save(const KeptVolume& volume);
    Task<Status> finish_removal(VolumePtr volume);

    gate::Ground& ground_;
    gate::Documents documents_;
    std::map<std::string, VolumePtr, std::less<>> volumes_;
};

} // namespace berth::e2b

#pragma once

#include <string>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace berth::local {

/// The state directory: what berth keeps between its runs. Closed to everybody else, because the
/// layers in it carry real set-id bits and the sandboxes' own ids.
class StateDir {
public:
    /// Opens it, making what is missing. One that others may enter, or that belongs to somebody
    /// else, is refused.
    [[nodiscard]] static Result<StateDir> open(const std::string& path);

    [[nodiscard]] const std::string& path() const noexcept { return path_; }
    [[nodiscard]] int fd() const noexcept { return dir_.get(); }

    /// Where each sandbox's own mount namespace mounts its throw-away file system; always empty.
    [[nodiscard]] std::string mount_point() const { return path_ + "/mnt"; }
    [[nodiscard]] std::string templates() const { return path_ + "/template"; }
    [[nodiscard]] std::string sandboxes() const { return path_ + "/sandbox"; }
    [[nodiscard]] std::string layers() const { return path_ + "/layer"; }
    [[nodiscard]] std::string trash() const { return path_ + "/trash"; }

    /// Records of the runs that have control groups; borrowed.
    [[nodiscard]] int limited() const noexcept { return limited_.get(); }

    /// The directory of id leases: one for the machine where it can be, so that two state
    /// directories never give the same ids to two sandboxes.
    [[nodiscard]] Result<UniqueFd> id_leases() const;

private:
    StateDir(std::string path, UniqueFd dir, UniqueFd limited)
        : path_(std::move(path)), dir_(std::move(dir)), limited_(std::move(limited))
    {
    }
    std::string path_;
    UniqueFd dir_;
    UniqueFd limited_;
};

/// BERTH_DATA, else /var/lib/berth for root, else $XDG_STATE_HOME/berth or ~/.local/state/berth.
[[nodiscard]] Result<std::string> default_state_path();

} // namespace berth::local

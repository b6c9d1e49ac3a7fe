#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/local/shared.hpp"
#include "backend/local/state_dir.hpp"
#include "base/result.hpp"
#include "base/unique_fd.hpp"
#include "keeping/account.hpp"
#include "sys/id_range.hpp"
#include "sys/userns.hpp"

namespace berth::local {

/// How users inside relate to users outside.
enum class IdMode {
    Mapped, ///< root outside: 65 536 ids of the sandbox's own, entered after every mount
    Plain,  ///< root outside, no idmapped mounts here: the host's ids with few capabilities; weaker
    Own,    ///< an ordinary user outside: one id, shown inside as 1000
};

[[nodiscard]] std::string_view to_string(IdMode mode) noexcept;

/// The ids of one sandbox.
struct Identity {
    IdMode mode = IdMode::Own;
    std::optional<sys::IdRange> range; ///< Mapped: leased as long as anybody holds its descriptor
    sys::UserNamespace user_namespace; ///< Mapped: for setns and idmapped mounts

    /// The id outside that is `inside` in the sandbox.
    [[nodiscard]] std::uint32_t outside(std::uint32_t inside) const;
};

/// Leases and makes what is needed. `idmap_probe` is a path on the file system that lowers lie on.
[[nodiscard]] Result<Identity> make_identity(const StateDir& state, const std::string& idmap_probe);

/// True when a clone of the mount at `path` can be idmapped with this namespace.
[[nodiscard]] bool can_idmap(const std::string& path, int user_namespace);

/// "user", "root", another name of the root's /etc/passwd, "1001", each also with ":GROUP". `roots` are
/// layers with etc/passwd, the topmost first; they may come from a template somebody else wrote.
[[nodiscard]] Result<Account> find_account(std::string_view user, const std::vector<std::string>& roots);

/// Whom the default user `user` means in an image: an account of that name, else the user the image
/// names, else root.
[[nodiscard]] Result<Account> image_account(const std::string& user, const std::vector<std::string>& roots);

} // namespace berth::local

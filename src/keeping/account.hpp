#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace berth::keeping {

constexpr std::uint32_t kUserId = 1000; ///< of the account `user` in template `host`

/// An account as the sandbox knows it.
struct Account {
    std::string name;
    std::uint32_t uid = kUserId;
    std::uint32_t gid = kUserId;
    std::string home = "/home/user";
    std::string shell = "/bin/sh";
};

/// The text of "etc/passwd" or "etc/group" of a root, empty when it has none. Somebody else wrote them.
using EtcReader = std::function<Result<std::string>(const std::string& name)>;

/// "user", "root", another name of the root's /etc/passwd, "1001", each also with ":GROUP".
[[nodiscard]] Result<Account> find_account(std::string_view user, const EtcReader& etc);

/// The same without the two accounts that a template need not have.
[[nodiscard]] Result<std::optional<Account>> find_listed(std::string_view user, const EtcReader& etc);

/// Whom the default user `user` means in an image: an account of that name, else the user the image
/// names, else root.
[[nodiscard]] Result<Account> image_account(const std::string& user, const EtcReader& etc);

} // namespace berth::keeping

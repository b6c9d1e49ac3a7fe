#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.hpp"
#include "base/unique_fd.hpp"

namespace berth::sys {

/// `count` ids from `inside` on are shown outside as `outside` and following.
struct IdMapping {
    std::uint32_t inside = 0;
    std::uint32_t outside = 0;
    std::uint32_t count = 1;
};

/// A user namespace with its id maps written, held by descriptor: for setns, and for idmapped
/// mounts. Made by a short-lived holder, because a namespace that a vforking clone makes for itself
/// has nobody left to write its maps.
class UserNamespace {
public:
    UserNamespace() = default;
    /// What is used inside of the kernel's budgets for each user (inotify instances, pending signals, …) is
    /// charged to `owner` too: root gives every sandbox a user of its own, not himself.
    [[nodiscard]] static Result<UserNamespace> make(const std::vector<IdMapping>& uids,
                                                    const std::vector<IdMapping>& gids,
                                                    std::optional<uid_t> owner = {});
    UserNamespace(UserNamespace&& other) noexcept;
    UserNamespace& operator=(UserNamespace&& other) noexcept;
    ~UserNamespace() { settle(); }

    [[nodiscard]] int get() const noexcept { return fd_.get(); }
    explicit operator bool() const noexcept { return static_cast<bool>(fd_); }

    /// Waits for the end of the holder, which was killed: at once after a launch, a context switch or
    /// two right after make(), which is why make() does not wait.
    void settle() noexcept;

private:
    UniqueFd fd_;
    pid_t holder_ = -1;
    void* stack_ = nullptr;
};

} // namespace berth::sys

#pragma once

#include <string_view>

#include "base/result.hpp"

namespace berth::sys {

/// Whose privilege over another process's namespaces is used.
enum class Through {
    Ours,             ///< root's own
    ItsUserNamespace, ///< an ordinary user's, over a user namespace of his
};

/// Changes the host name that a process and all of its uts namespace see.
[[nodiscard]] Status set_host_name(int pidfd, std::string_view name, Through privilege);

} // namespace berth::sys

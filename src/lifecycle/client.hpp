#pragma once

#include "lifecycle/key_lock.hpp"

/// A sandbox that is thrown away with the process it was made for: what runs in it pins it only while that
/// one lives.
namespace berth {

/// The label of such a sandbox.
inline constexpr std::string_view kClientLabel = "berth.client";

/// Held by the client as long as it lives, however it ends. Nothing: it lives.
[[nodiscard]] inline Result<std::optional<KeyLock>> take_client(const std::string& data,
                                                                const std::string& id)
{
    return KeyLock::try_take(data + "/lock", "client:" + id);
}

} // namespace berth

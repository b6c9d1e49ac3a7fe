#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"

namespace berth {

/// A key is any text that finds a sandbox again from another process: not empty, at most 512 bytes of
/// UTF-8, without control characters.
[[nodiscard]] Status check_key(std::string_view key);

/// The keys exo and berth share. An id with a colon would make two keys look alike: refused.
[[nodiscard]] Result<std::string> conversation_key(std::string_view conversation, std::string_view sandbox);
[[nodiscard]] Result<std::string> agent_key(std::string_view agent, std::string_view sandbox);

} // namespace berth

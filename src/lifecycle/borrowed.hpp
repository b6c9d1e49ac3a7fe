#pragma once

#include "core/record.hpp"

namespace berth {

/// The key of an instance that somebody else made.
[[nodiscard]] inline std::string borrowed_key(std::string_view backend, std::string_view native)
{
    return fmt::format("attached:{}:{}", backend, native);
}

/// Also of one that is lost, of which the state does not tell.
[[nodiscard]] inline bool is_borrowed(const SandboxRecord& record)
{
    return record.key == borrowed_key(record.backend, record.native);
}

} // namespace berth

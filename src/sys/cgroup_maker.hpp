#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace berth::sys {

/// A process, told from every other that ever had its number.
struct Maker {
    pid_t pid = 0;
    std::uint64_t start_time = 0;    ///< clock ticks after boot
    std::uint64_t pid_namespace = 0; ///< numbers mean something only in their own
    bool operator==(const Maker&) const = default;
};

[[nodiscard]] Maker this_process();
/// One of this namespace; nothing when it is not there or has ended.
[[nodiscard]] std::optional<Maker> process_of(pid_t pid);

/// True unless it is certain that the process has ended; one of another namespace is never certain.
[[nodiscard]] bool may_be_alive(const Maker& maker);

/// "berth-4711-123456-f0000000-name"
[[nodiscard]] std::string group_name(const Maker& maker, std::string_view name);
[[nodiscard]] std::optional<Maker> maker_of(std::string_view group_name);

} // namespace berth::sys

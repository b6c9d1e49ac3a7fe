#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.hpp"
#include "base/result.hpp"

namespace berth {

/// Takes the next bytes of a stream; a failure ends it. Called on a thread that may block.
using ByteSink = std::function<Status(std::string_view)>;
/// Gives the next bytes of a stream, none at its end. Called on a thread that may block.
using ByteSource = std::function<Result<std::string>()>;

/// A tree of files as a POSIX tar: names relative to its root, "." first.
struct ArchiveOptions {
    std::vector<std::string> skip; ///< paths below the root, literal; left out with all below them
    bool mounts = false; ///< also what is mounted below the root, else an empty directory stands there
    /// Also what only a whole root needs and write_archive() does not take: hard links as such, pipes, and
    /// the users' extended attributes.
    bool whole = false;
    /// Told of what a tar does not hold, sockets and devices, with the reason; on a thread that may block.
    std::function<void(const std::string& path, std::string_view why)> left_out{};
};

/// What becomes of links that lead out of the tree.
enum class ExternalLinks { Keep, Refuse, Drop };

/// Which names a member may have: those that mean the same on every system, or all that Linux has. A
/// backslash and a drive letter are only the latter.
enum class MemberNames { Portable, Any };

struct ArchiveLimits {
    Bytes input = 1_GiB;
    Bytes extracted = 4_GiB;
    std::uint64_t members = 100'000;
    ExternalLinks links = ExternalLinks::Keep;
    MemberNames names = MemberNames::Portable;

    /// Far beyond any workspace: bounds for what is hostile, not for what is large. All that a sandbox's
    /// tree can be, as read_archive gives it.
    [[nodiscard]] static constexpr ArchiveLimits whole_tree()
    {
        return {.input = Bytes{1ull << 40},
                .extracted = Bytes{1ull << 40},
                .members = 5'000'000,
                .names = MemberNames::Any};
    }
};

} // namespace berth

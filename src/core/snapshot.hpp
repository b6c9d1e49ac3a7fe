#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace berth {

/// Kinds of snapshots are open words: a backend names those it makes and those it restores. These are
/// our own.
namespace snapshot_kind {
inline constexpr std::string_view kLayer = "berth_layer";        ///< frozen layers of the local backend
inline constexpr std::string_view kRootTar = "berth_rootfs_tar"; ///< the whole root, tar and zstd
inline constexpr std::string_view kWorkspaceTar =
    "berth_workspace_tar";                                       ///< home and workspaces: restorable anywhere
inline constexpr std::string_view kRootTarFile = "root.tar.zst"; ///< in the directory of a kRootTar
} // namespace snapshot_kind

/// A snapshot to be taken. Asking again with the same id finds what was made.
struct SnapshotRequest {
    std::string id;        ///< "snap_…"
    std::string kind;      ///< empty: the backend's best
    std::string directory; ///< an empty directory of its own, for whatever the backend must keep
    /// Told of bytes that were read for it, where that takes a while; on a thread that may block.
    std::function<void(std::uint64_t bytes)> progress{};
};

/// One that was taken.
struct SnapshotTaken {
    std::string kind;
    std::uint64_t bytes = 0; ///< zero: it was not looked at (core/weighs_snapshots.hpp)
    std::string sha256;      ///< of the one file in the directory, where the kind has one; else empty
    std::string file;        ///< its name; empty: the kind keeps no file
    bool live_copy = false;  ///< processes went on running; else those of the sandbox were ended
    std::chrono::nanoseconds elapsed{0};
    std::vector<std::string> notes; ///< what is not part of it
};

/// One to start from.
struct SnapshotSource {
    std::string id;
    std::string kind;
    std::string directory;
    bool operator==(const SnapshotSource&) const = default;
};

} // namespace berth

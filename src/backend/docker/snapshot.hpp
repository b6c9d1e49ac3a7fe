#pragma once

#include <string_view>

#include "backend/docker/images.hpp"
#include "backend/docker/life.hpp"

namespace berth::docker {

/// The image of a container as `docker save` writes it: what any engine loads.
inline constexpr std::string_view kImageTar = "docker_image_tar";

/// What a container is committed for: a file, or another container that goes on in its place.
enum class CommitFor { Snapshot, Successor };
/// An image of the files of an instance, with a name of ours and this tag: its id, where the engine tells it.
/// Whoever has no other use for it but to make a container of it holds the lock of the images meanwhile.
[[nodiscard]] Result<std::string> commit_container(const Engine& engine, const Instance& instance,
                                                   CommitFor purpose, const std::string& tag);

/// Commits, saves and forgets: the engine keeps nothing of it. Of a running, paused or stopped instance.
[[nodiscard]] Result<SnapshotTaken> take_snapshot(const Where& where, const std::string& native,
                                                  const SnapshotRequest& request);

/// The same of the kind that was asked for; Unsupported: that is another's.
[[nodiscard]] Result<SnapshotTaken> snapshot_of(const Where& where, const std::string& native,
                                                const SnapshotRequest& request);
/// Refuses a snapshot to start from of a kind that no engine takes.
[[nodiscard]] Status check_restorable(const CreateRequest& request);

/// The image of a snapshot, loaded where the engine does not have it. Whoever makes a container of it holds
/// the lock of the images meanwhile.
[[nodiscard]] Result<Image> load_snapshot(const Engine& engine, const SnapshotSource& from);

/// What the image of an instance asks for, as its record has it.
[[nodiscard]] Result<ImageDefaults> defaults_of(const InstanceDirs& dirs, const std::string& native);

/// What the engine was given to make containers from this snapshot; still in use is success.
[[nodiscard]] Status drop_snapshot_image(const Where& where, const std::string& snapshot);

/// Images of snapshots that no container uses.
[[nodiscard]] Result<Collected> collect_images(const Where& where, bool dry_run);

/// Shared by those who load an image to use it, exclusive to who removes what is unused.
enum class ImageUse { Load, Collect };
[[nodiscard]] Result<UniqueFd> lock_images(const InstanceDirs& dirs, ImageUse use);

/// What an archive that is whole ends with: zeros.
inline constexpr std::size_t kTarEnd = 1024;
/// An engine that fails half-way says so in the stream, as if that were a part of the archive, and ends it in
/// good order: its words become the error. `last` are the archive's last kTarEnd bytes.
[[nodiscard]] Status check_archive_end(std::string_view last);

/// Refuses a tree below which the engine has mounted a volume: what lies in it would be missing.
[[nodiscard]] Status check_volumes(const Where& where, const std::string& native, const std::string& tree);

} // namespace berth::docker

#pragma once

#include "core/file_entry.hpp"
#include "protocol/e2b/filesystem.hpp"
#include "server/e2b/as_user.hpp"
#include "server/e2b/envd.hpp"
#include "server/e2b/file_metadata.hpp"

namespace berth::e2b {

/// What is shown of a file at `path`, of which `entry` is the directory's own word. `metadata`: already
/// known.
Task<EntryInfo> entry_info(const EnvdCall& call, std::string path, FileEntry entry, std::string user,
                           std::optional<FileMetadata> metadata = std::nullopt);

} // namespace berth::e2b

#pragma once

#include "core/file_entry.hpp"
#include "protocol/e2b/filesystem.hpp"
#include "server/e2b/envd.hpp"
#include "server/e2b/file_metadata.hpp"

namespace berth::e2b {

/// What is shown of a file at `path`, of which `entry` is the directory's own word. `metadata`: already
/// known.
Task<EntryInfo> entry_info(const EnvdCall& call, std::string path, FileEntry entry, std::string user,
                           std::optional<FileMetadata> metadata = std::nullopt);

/// As the caller's user, and where that is denied as root.
template <class F> auto as_user(const User& user, F work) -> decltype(work(std::string{}))
{
    auto done = co_await work(user.name);
    if (done || done.error().code != Code::Denied || user.name == "root") co_return done;
    auto again = co_await work("root");
    // Where there is no root, the first word counts.
    if (!again && again.error().code == Code::Unsupported) co_return done;
    co_return again;
}

} // namespace berth::e2b

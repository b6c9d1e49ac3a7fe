#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.hpp"
#include "base/json.hpp"

/// The messages of envd's service filesystem.Filesystem, as JSON.
namespace berth::e2b {

/// Any of its requests: each uses some of the fields.
struct FilesystemCall {
    std::string path;
    std::string source, destination; ///< of Move
    std::uint32_t depth = 1;         ///< of ListDir; 0 means 1
    bool recursive = false;          ///< of WatchDir and CreateWatcher
    bool include_entry = false;
    std::string watcher; ///< of GetWatcherEvents and RemoveWatcher
};

[[nodiscard]] Result<FilesystemCall> read_filesystem_call(std::string_view text);

enum class FileType { Unspecified, File, Directory, Symlink };

struct EntryInfo {
    std::string name;
    FileType type = FileType::Unspecified;
    std::string path;
    std::uint64_t size = 0;
    unsigned mode = 0; ///< permission bits alone
    std::string permissions;
    std::string owner, group;
    WallTime modified{};
    std::optional<std::string> symlink_target;
    std::map<std::string, std::string> metadata;
};

/// "drwxr-xr-x": the letters of the kind, those of set-id and sticky, and nine of the bits.
[[nodiscard]] std::string permission_text(std::string_view kind, unsigned mode);

[[nodiscard]] std::string entry_answer(const EntryInfo& entry);
[[nodiscard]] std::string entries_answer(const std::vector<EntryInfo>& entries);

enum class WatchEvent { Create = 1, Write, Remove, Rename, Chmod };

struct FilesystemEvent {
    std::string name; ///< relative to the watched directory
    WatchEvent type = WatchEvent::Write;
    std::optional<EntryInfo> entry;
};

[[nodiscard]] std::string watch_start();
[[nodiscard]] std::string watch_event(const FilesystemEvent& event);
[[nodiscard]] std::string watch_keepalive();
[[nodiscard]] std::string watcher_answer(std::string_view watcher);
[[nodiscard]] std::string events_answer(const std::vector<FilesystemEvent>& events);

/// The other side: what a client that watches sends, and what it is told.
struct WatchMessage {
    bool started = false;
    std::optional<FilesystemEvent> event; ///< without its entry; of a type we know
};
[[nodiscard]] std::string watch_request(std::string_view path, bool recursive);
[[nodiscard]] std::string path_request(std::string_view path);
[[nodiscard]] Result<WatchMessage> read_watch_message(std::string_view text);

} // namespace berth::e2b

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "protocol/codex/intent.hpp"

/// The parameters of fs/*.
namespace berth::codex {

struct FileLimits {
    static constexpr std::size_t handle_id = 32;
    static constexpr std::size_t block = 1u << 20;
    static constexpr std::int64_t walk_depth = 64;
    static constexpr std::int64_t walk_directories = 10'000;
    static constexpr std::int64_t walk_entries = 50'000;
};

/// A path and how it is meant; what a method does not have keeps its default.
struct PathParams {
    std::string path; ///< native
    std::optional<Intent> sandbox;
    bool follow = true;
    bool recursive = true;
    bool force = true;
};

struct WriteFileParams : PathParams {
    std::string bytes;
};

struct CopyParams {
    std::string from;
    std::string to;
    bool recursive = false;
    std::optional<Intent> sandbox;
};

struct WalkParams {
    std::string path;
    std::optional<Intent> sandbox;
    std::int64_t max_depth = 0;
    std::int64_t max_directories = 0;
    std::int64_t max_entries = 0;
    bool follow_directory_links = false;
    bool prune_hidden = false;
};

struct OpenParams {
    enum class Mode { Read, Replace };
    std::string handle;
    std::string path;
    Mode mode = Mode::Read;
    std::optional<Intent> sandbox;
};

struct BlockParams {
    std::string handle;
    std::uint64_t offset = 0;
    std::size_t length = 0; ///< of a read
    std::string bytes;      ///< of a write
};

struct WatchParams {
    std::int64_t id = 0;
    std::vector<std::string> missing;
    std::string present;
};

/// An error of these is a member that is missing or wrong, but for Code::Conflict: a value that the method
/// itself refuses (a bad handle, bad base64, a walk without bounds), and Unsupported: a path of another
/// platform. Both have a code of their own on the wire.
[[nodiscard]] Result<PathParams> read_path_params(const json::Value& params);
[[nodiscard]] Result<WriteFileParams> read_write_file(const json::Value& params);
[[nodiscard]] Result<CopyParams> read_copy(const json::Value& params);
[[nodiscard]] Result<WalkParams> read_walk(const json::Value& params);
[[nodiscard]] Result<OpenParams> read_open(const json::Value& params);
[[nodiscard]] Result<BlockParams> read_read_block(const json::Value& params);
[[nodiscard]] Result<BlockParams> read_write_block(const json::Value& params);
[[nodiscard]] Result<std::string> read_handle(const json::Value& params);
[[nodiscard]] Result<WatchParams> read_watch(const json::Value& params);

} // namespace berth::codex

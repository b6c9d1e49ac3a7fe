#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// What fs/* tells, wherever the files are.
namespace berth::codex::files {

inline constexpr std::size_t kReadLimit = std::size_t{47} << 20; ///< as base64 it still fits into a message
inline constexpr std::size_t kMaxEntries = 50'000;               ///< of one directory

struct Metadata {
    bool directory = false;
    bool file = false;
    bool symlink = false; ///< the name itself is one
    std::uint64_t size = 0;
    std::int64_t created_ms = 0;
    std::int64_t modified_ms = 0;
};

struct Entry {
    std::string name;
    bool directory = false;
    bool file = false;
};

struct WalkResult {
    struct Item {
        std::string path;
        bool directory = false;
    };
    struct Failure {
        std::string path;
        std::string message;
    };
    std::vector<Item> items;
    std::vector<Failure> failures;
    bool truncated = false;
};

/// What an answer to a walk may take up, and what each item adds beside its path.
inline constexpr std::size_t kWalkBytes = std::size_t{4} << 20;
inline constexpr std::size_t kWalkItem = 64;

} // namespace berth::codex::files

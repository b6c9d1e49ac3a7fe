#pragma once

#include <string>

namespace berth {

/// A file that takes up room in the state directory while there is plenty, so that whoever comes to make room
/// when there is none has some to work with: even to forget something the store must write.
class Ballast {
public:
    explicit Ballast(const std::string& directory) : directory_(directory), file_(directory + "/ballast") {}

    /// So little is free that the next write may fail.
    [[nodiscard]] bool short_of_room() const;
    /// Gives the room back to the disk.
    void release() const;
    /// Takes it again, where there is plenty.
    void refill() const;

private:
    std::string directory_;
    std::string file_;
};

/// Bytes that this user may still write in a directory; 0 when nobody can tell.
[[nodiscard]] unsigned long long free_bytes(const std::string& directory);

} // namespace berth

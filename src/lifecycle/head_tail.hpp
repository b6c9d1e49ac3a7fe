#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace berth {

/// A text of any length in bounded room: its beginning and its end, and how much there was.
class HeadTail {
public:
    /// Keeps about `room` bytes, half of them of each end.
    explicit HeadTail(std::size_t room) : room_(room) {}

    void add(std::string_view bytes);

    [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
    [[nodiscard]] std::uint64_t lines() const noexcept; ///< an unfinished last one counts
    [[nodiscard]] bool cut() const noexcept { return bytes_ > room_; }
    /// All of it; or, when it was cut, the number of lines, the head, a marker, and the tail. No character
    /// of UTF-8 is cut in two; bytes that are none stay as they are.
    [[nodiscard]] std::string text() const;

private:
    std::size_t room_;
    std::string head_; ///< up to `room_` bytes, so that what fits is never cut
    std::string tail_; ///< what came after the head; at times twice as much as is kept
    std::uint64_t bytes_ = 0;
    std::uint64_t ended_lines_ = 0;
    bool mid_line_ = false;
};

} // namespace berth

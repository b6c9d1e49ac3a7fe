#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "base/result.hpp"

namespace berth::bench {

/// The answer to a Start call, as the bytes of a connection: looks at lengths, and at the first and last
/// words of each message. A client that copied and searched them would be measured together with the server.
class StreamReader {
public:
    [[nodiscard]] Status take(std::string_view bytes);

    [[nodiscard]] bool complete() const noexcept { return complete_; }
    /// Of output, in all messages.
    [[nodiscard]] std::size_t output() const noexcept { return output_; }
    [[nodiscard]] bool ended_well() const noexcept { return ended_well_; }

private:
    [[nodiscard]] Status take_line();
    void take_body(std::string_view bytes);
    void count();

    bool in_head_ = true;
    std::string line_;      ///< of the head, or between chunks
    std::size_t chunk_ = 0; ///< bytes of it that are to come
    bool last_chunk_ = false;
    bool complete_ = false;

    std::string frame_;        ///< the head of an envelope
    std::size_t size_ = 0;     ///< of its payload
    std::size_t left_ = 0;     ///< of that
    std::string first_, tail_; ///< of its payload
    std::size_t output_ = 0;
    bool ended_well_ = false;
};

} // namespace berth::bench

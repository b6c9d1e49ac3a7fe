#include "lifecycle/head_tail.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace berth {

namespace {

constexpr std::size_t kLongestCharacter = 4;

bool continues(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

std::size_t length_by_first(char c)
{
    const auto byte = static_cast<unsigned char>(c);
    return byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
}

/// Without a character at the end that is not whole.
std::string_view whole_head(std::string_view text)
{
    std::size_t at = text.size();
    while (at > 0 && text.size() - at < kLongestCharacter) {
        --at;
        if (continues(text[at])) continue;
        return at + length_by_first(text[at]) > text.size() ? text.substr(0, at) : text;
    }
    return text; // no UTF-8 there
}

/// Without the rest of a character at the beginning.
std::string_view whole_tail(std::string_view text)
{
    std::size_t at = 0;
    while (at < text.size() && at < kLongestCharacter && continues(text[at])) ++at;
    return at == kLongestCharacter ? text : text.substr(at);
}

} // namespace

void HeadTail::add(std::string_view bytes)
{
    if (bytes.empty()) return;
    bytes_ += bytes.size();
    ended_lines_ += static_cast<std::uint64_t>(std::ranges::count(bytes, '\n'));
    mid_line_ = bytes.back() != '\n';
    const auto first = bytes.substr(0, room_ - std::min(room_, head_.size()));
    head_.append(first);
    bytes.remove_prefix(first.size());
    const std::size_t kept = room_ / 2;
    if (bytes.size() > kept) {
        tail_.clear();
        bytes.remove_prefix(bytes.size() - kept);
    }
    tail_.append(bytes);
    if (tail_.size() > 2 * kept) tail_.erase(0, tail_.size() - kept);
}

std::uint64_t HeadTail::lines() const noexcept { return ended_lines_ + (mid_line_ ? 1 : 0); }

std::string HeadTail::text() const
{
    if (!cut()) return head_;
    const std::size_t half = room_ / 2;
    const auto head = whole_head(std::string_view(head_).substr(0, room_ - half));
    // The end of what was kept whole belongs to the tail while little came after it.
    std::string last = head_.substr(head_.size() - std::min(head_.size(), half)) + tail_;
    last.erase(0, last.size() - std::min(last.size(), half));
    const auto tail = whole_tail(last);
    return fmt::format("{} lines in all\n{}\n… {} bytes left out …\n{}", lines(), head,
                       bytes_ - head.size() - tail.size(), tail);
}

} // namespace berth

#include "bench/stream_reader.hpp"

#include <algorithm>
#include <cstdlib>

#include "base/strings.hpp"

namespace berth::bench {

namespace {

constexpr std::size_t kFrameHead = 5;
constexpr std::size_t kFirst = 256; ///< of a message that are kept: all of one that has no output
constexpr std::string_view kBefore = R"({"event":{"data":{"stdout":")";
constexpr std::string_view kAfter = R"("}}})";
constexpr std::size_t kTail = 4 + kAfter.size(); ///< with the digits that may be padding

} // namespace

Status StreamReader::take(std::string_view bytes)
{
    while (!bytes.empty() && !complete_) {
        if (!in_head_ && chunk_ > 0) {
            const auto part = bytes.substr(0, chunk_);
            take_body(part);
            chunk_ -= part.size();
            bytes.remove_prefix(part.size());
            continue;
        }
        const auto end = std::min(bytes.find('\n'), bytes.size() - 1) + 1;
        line_ += bytes.substr(0, end);
        bytes.remove_prefix(end);
        if (line_.ends_with('\n')) BERTH_CHECK(take_line());
    }
    return {};
}

Status StreamReader::take_line()
{
    const std::string line = std::exchange(line_, {});
    if (in_head_) {
        if (line.starts_with("HTTP/") && !line.starts_with("HTTP/1.1 200"))
            return fail(Code::Internal, "it answered {}", printable(line, 80));
        in_head_ = line != "\r\n";
    } else if (line == "\r\n") {
        complete_ = last_chunk_;
    } else {
        chunk_ = std::strtoul(line.c_str(), nullptr, 16);
        last_chunk_ = chunk_ == 0;
    }
    return {};
}

void StreamReader::take_body(std::string_view bytes)
{
    while (!bytes.empty()) {
        if (left_ == 0) {
            frame_ += bytes.front();
            bytes.remove_prefix(1);
            if (frame_.size() < kFrameHead) continue;
            for (std::size_t i = 1; i < kFrameHead; ++i)
                left_ = left_ << 8 | static_cast<unsigned char>(frame_[i]);
            frame_.clear();
            size_ = left_;
        }
        const auto part = bytes.substr(0, left_);
        first_ += part.substr(0, kFirst - first_.size());
        tail_ += part.substr(part.size() - std::min(part.size(), kTail));
        tail_.erase(0, tail_.size() - std::min(tail_.size(), kTail));
        bytes.remove_prefix(part.size());
        left_ -= part.size();
        if (left_ == 0) count();
    }
}

void StreamReader::count()
{
    if (first_.starts_with(kBefore)) {
        const std::size_t digits = size_ - kBefore.size() - kAfter.size();
        const auto padding = std::ranges::count(tail_, '=');
        output_ += digits / 4 * 3 - static_cast<std::size_t>(padding);
    }
    ended_well_ = ended_well_ || first_.find("exit status 0") != std::string::npos;
    first_.clear();
    tail_.clear();
}

} // namespace berth::bench

#pragma once

#include "server/e2b/built.hpp"

namespace berth::e2b {

/// What a build prints, as lines of its log; bounded in their number and length.
class BuildLog {
public:
    explicit BuildLog(BuildPtr build) : build_(std::move(build)) {}

    /// What follows belongs to this step: "[builder 2/3]".
    void begin(std::string label, std::string step);
    void add(std::string level, std::string_view message, std::string step = {});
    /// Output of a command; lines may come in parts.
    void print(bool out, std::string_view bytes);
    /// Its end: what has no newline yet is a line.
    void flush();

private:
    void put(BuildLine line);
    void line(bool out, std::string_view text);

    BuildPtr build_;
    std::string label_;
    std::string step_;
    std::string pending_[2]; ///< of stdout and stderr
};

} // namespace berth::e2b

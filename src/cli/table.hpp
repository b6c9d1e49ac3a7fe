#pragma once

#include <string>
#include <vector>

namespace berth::cli {

/// Columns for people, the same on a terminal and in a pipe: two spaces between them, nothing behind the
/// last one. What a sandbox or a user named cannot break a line or steer a terminal.
class Table {
public:
    explicit Table(std::vector<std::string> heads);
    void add(std::vector<std::string> cells);
    [[nodiscard]] std::string text() const;

private:
    std::vector<std::vector<std::string>> rows_;
};

/// "-" for an empty cell, so that every row has as many words as the head has.
[[nodiscard]] std::string cell(const std::string& text, std::size_t limit = 60);

} // namespace berth::cli

#include "cli/table.hpp"

#include <algorithm>

#include "base/strings.hpp"

namespace berth::cli {

namespace {

/// Characters, near enough: bytes that begin one.
std::size_t width(const std::string& text)
{
    return static_cast<std::size_t>(
        std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

} // namespace

std::string cell(const std::string& text, std::size_t limit)
{
    return text.empty() ? "-" : printable(text, limit);
}

Table::Table(std::vector<std::string> heads) { rows_.push_back(std::move(heads)); }

void Table::add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }

std::string Table::text() const
{
    std::vector<std::size_t> widths(rows_.front().size(), 0);
    for (const auto& row : rows_)
        for (std::size_t i = 0; i < row.size() && i < widths.size(); ++i)
            widths[i] = std::max(widths[i], width(row[i]));
    std::string out;
    for (const auto& row : rows_) {
        for (std::size_t i = 0; i < row.size(); ++i) {
            out += row[i];
            if (i + 1 < row.size()) out.append(widths[i] - width(row[i]) + 2, ' ');
        }
        out += '\n';
    }
    return out;
}

} // namespace berth::cli

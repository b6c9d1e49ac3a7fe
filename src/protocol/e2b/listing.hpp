#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "base/result.hpp"

/// What GET /v2/sandboxes can be asked, and how it is paged.
namespace berth::e2b {

using Pairs = std::vector<std::pair<std::string, std::string>>;

/// Where the next page begins: after this sandbox.
struct PageToken {
    WallTime started{};
    std::string id;
    bool ascending = false;
    bool operator==(const PageToken&) const = default;
};
[[nodiscard]] std::string encode(const PageToken& token);
[[nodiscard]] Result<PageToken> parse_page_token(std::string_view text);

struct ListQuery {
    std::map<std::string, std::string> metadata;
    bool running = true;
    bool paused = true;
    bool ascending = false;
    std::optional<WallTime> started_after;
    std::optional<std::string> template_id;
    std::size_t limit = 100;
    std::optional<PageToken> after;
};

/// From the pairs of the query, decoded once.
[[nodiscard]] Result<ListQuery> read_list_query(const Pairs& query);

/// Clients encode names and values, and what they make of them, and that once more: this takes the
/// parameter after the query itself was decoded.
[[nodiscard]] Result<std::map<std::string, std::string>> read_metadata_filter(std::string_view text);
/// The parameter for a request of our own, before the query itself is encoded.
[[nodiscard]] std::string metadata_filter(const std::map<std::string, std::string>& metadata);

/// "2026-03-01T12:00:00.25Z", with any fraction and Z or an offset.
[[nodiscard]] Result<WallTime> parse_rfc3339(std::string_view text);

} // namespace berth::e2b

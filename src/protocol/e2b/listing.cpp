#include "protocol/e2b/listing.hpp"

#include <charconv>
#include <utility>

#include "base/encoding.hpp"
#include "base/strings.hpp"

namespace berth::e2b {

namespace {

/// A fixed number of digits at a place.
Result<int> digits(std::string_view text, std::size_t at, std::size_t count)
{
    int out = 0;
    if (at + count > text.size()) return fail(Code::Invalid, "'{}' is not a time", printable(text, 60));
    const auto* const first = text.data() + at;
    const auto [end, error] = std::from_chars(first, first + count, out);
    if (error != std::errc{} || end != first + count || out < 0)
        return fail(Code::Invalid, "'{}' is not a time", printable(text, 60));
    return out;
}

std::int64_t since_epoch(WallTime time) { return time.time_since_epoch().count(); }

} // namespace

Result<WallTime> parse_rfc3339(std::string_view text)
{
    const auto bad = [&] { return fail(Code::Invalid, "'{}' is not a time", printable(text, 60)); };
    if (text.size() < 20 || text[4] != '-' || text[7] != '-' || (text[10] != 'T' && text[10] != 't') ||
        text[13] != ':' || text[16] != ':')
        return bad();
    BERTH_TRY(const int year, digits(text, 0, 4));
    BERTH_TRY(const int month, digits(text, 5, 2));
    BERTH_TRY(const int day, digits(text, 8, 2));
    BERTH_TRY(const int hour, digits(text, 11, 2));
    BERTH_TRY(const int minute, digits(text, 14, 2));
    BERTH_TRY(const int second, digits(text, 17, 2));
    const std::chrono::year_month_day date{std::chrono::year(year),
                                           std::chrono::month(static_cast<unsigned>(month)),
                                           std::chrono::day(static_cast<unsigned>(day))};
    // Nanoseconds since 1970 end in 2262.
    if (!date.ok() || year < 1970 || year > 2261 || hour > 23 || minute > 59 || second > 60) return bad();
    std::chrono::nanoseconds time = std::chrono::sys_days(date).time_since_epoch();
    time += std::chrono::hours(hour) + std::chrono::minutes(minute) + std::chrono::seconds(second);
    std::size_t at = 19;
    if (text[at] == '.') {
        std::int64_t scale = 100'000'000;
        for (++at; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at, scale /= 10)
            time += std::chrono::nanoseconds((text[at] - '0') * scale);
    }
    if (at + 1 == text.size() && (text[at] == 'Z' || text[at] == 'z')) return WallTime(time);
    if (at + 6 != text.size() || (text[at] != '+' && text[at] != '-') || text[at + 3] != ':') return bad();
    BERTH_TRY(const int east, digits(text, at + 1, 2));
    BERTH_TRY(const int further, digits(text, at + 4, 2));
    const auto offset = std::chrono::hours(east) + std::chrono::minutes(further);
    return WallTime(text[at] == '+' ? time - offset : time + offset);
}

std::string encode(const PageToken& token)
{
    auto text = base64_encode(
        fmt::format("{}__{}{}", since_epoch(token.started), token.id, token.ascending ? "__asc" : ""));
    for (auto& c : text) c = c == '+' ? '-' : c == '/' ? '_' : c;
    while (text.ends_with('=')) text.pop_back();
    return text;
}

Result<PageToken> parse_page_token(std::string_view text)
{
    const auto bad = [] { return fail(Code::Invalid, "nextToken is not one of ours"); };
    auto decoded = base64_decode(text);
    if (!decoded || decoded->size() > 200) return bad();
    PageToken out;
    std::string_view rest = *decoded;
    if (rest.ends_with("__asc")) {
        out.ascending = true;
        rest.remove_suffix(5);
    }
    const auto at = rest.find("__");
    if (at == std::string_view::npos) return bad();
    const auto time = parse_int(rest.substr(0, at), 0, INT64_MAX, "time");
    if (!time) return bad();
    out.started = WallTime(std::chrono::nanoseconds(*time));
    out.id = rest.substr(at + 2);
    return out;
}

Result<std::map<std::string, std::string>> read_metadata_filter(std::string_view text)
{
    const auto bad = [] { return fail(Code::Invalid, "metadata is not name=value&name=value"); };
    std::map<std::string, std::string> out;
    const auto once = form_decode(text);
    if (!once) return bad();
    if (once->empty()) return out;
    for (const auto& part : split(*once, '&')) {
        const auto pair = split(part, '=');
        if (pair.size() != 2) return bad();
        auto name = form_decode(pair[0]);
        auto value = form_decode(pair[1]);
        if (!name || !value) return bad();
        out[*std::move(name)] = *std::move(value);
    }
    return out;
}

std::string metadata_filter(const std::map<std::string, std::string>& metadata)
{
    std::string out;
    for (const auto& [name, value] : metadata)
        out += fmt::format("{}{}={}", out.empty() ? "" : "&", percent_encode(percent_encode(name)),
                           percent_encode(percent_encode(value)));
    return out;
}

Result<ListQuery> read_list_query(const Pairs& query)
{
    ListQuery out;
    bool stated = false;
    for (const auto& [name, value] : query) {
        if (name == "metadata") {
            BERTH_TRY(out.metadata, read_metadata_filter(value));
        } else if (name == "state" && !value.empty()) {
            // Python's clients say it once for each state, the others with commas.
            if (!std::exchange(stated, true)) out.running = out.paused = false;
            for (const auto& state : split(value, ',')) {
                if (state == "running")
                    out.running = true;
                else if (state == "paused")
                    out.paused = true;
                else
                    return fail(Code::Invalid, "unknown state '{}'", printable(state, 40));
            }
        } else if (name == "order" && !value.empty()) {
            if (value != "asc" && value != "desc")
                return fail(Code::Invalid, "order is asc or desc, not '{}'", printable(value, 40));
            out.ascending = value == "asc";
        } else if (name == "startedAfter" && !value.empty()) {
            BERTH_TRY(out.started_after, parse_rfc3339(value));
        } else if (name == "template" && !value.empty()) {
            out.template_id = value;
        } else if (name == "limit" && !value.empty()) {
            BERTH_TRY(const auto limit, parse_int(value, 1, 100, "limit"));
            out.limit = static_cast<std::size_t>(limit);
        } else if (name == "nextToken" && !value.empty()) {
            BERTH_TRY(out.after, parse_page_token(value));
        }
    }
    if (out.after && out.after->ascending != out.ascending)
        return fail(Code::Invalid, "nextToken belongs to the other order");
    return out;
}

} // namespace berth::e2b

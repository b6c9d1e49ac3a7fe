#include "server/e2b/file_headers.hpp"

#include <array>
#include <ctime>
#include <optional>

#include "base/encoding.hpp"
#include "base/strings.hpp"

namespace berth::e2b {

namespace {

std::string date_of(WallTime time)
{
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
    const std::time_t at = seconds;
    std::tm parts{};
    ::gmtime_r(&at, &parts);
    char text[64];
    const auto size = std::strftime(&text[0], sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts);
    return {&text[0], size};
}

/// The moment an HTTP date names, in the one form that is still written.
std::optional<std::time_t> moment_of(std::string_view date)
{
    std::tm parts{};
    const std::string text(date);
    const char* const end = ::strptime(text.c_str(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
    if (end == nullptr || *end != '\0') return std::nullopt;
    return ::timegm(&parts);
}

/// Whether the client has it already. There are no entity tags: none that it names is ours, but "*" is.
bool unchanged(const http::RequestHead& head, WallTime modified)
{
    if (const auto* const tags = head.header("if-none-match")) return *tags == "*";
    const auto since = moment_of(head.value("if-modified-since"));
    const auto seconds = std::chrono::floor<std::chrono::seconds>(modified.time_since_epoch()).count();
    return since && modified != WallTime{} && seconds <= *since;
}

std::string_view type_of(std::string_view path)
{
    constexpr std::array<std::pair<std::string_view, std::string_view>, 14> kinds{{
        {".txt", "text/plain; charset=utf-8"},
        {".html", "text/html; charset=utf-8"},
        {".css", "text/css; charset=utf-8"},
        {".js", "text/javascript; charset=utf-8"},
        {".json", "application/json"},
        {".xml", "text/xml; charset=utf-8"},
        {".csv", "text/csv; charset=utf-8"},
        {".md", "text/markdown; charset=utf-8"},
        {".png", "image/png"},
        {".jpg", "image/jpeg"},
        {".jpeg", "image/jpeg"},
        {".gif", "image/gif"},
        {".svg", "image/svg+xml"},
        {".pdf", "application/pdf"},
    }};
    for (const auto& [ending, type] : kinds)
        if (path.ends_with(ending)) return type;
    return "application/octet-stream";
}

struct Range {
    std::uint64_t first = 0, last = 0;
};

/// One range of bytes; several, and what is no range, are answered with everything.
std::optional<Range> range_of(std::string_view text, std::uint64_t size, bool& unsatisfiable)
{
    unsatisfiable = false;
    if (!text.starts_with("bytes=") || text.find(',') != std::string_view::npos) return std::nullopt;
    text.remove_prefix(6);
    const auto dash = text.find('-');
    if (dash == std::string_view::npos) return std::nullopt;
    const auto first = parse_int(text.substr(0, dash), 0, INT64_MAX, "range");
    const auto last = parse_int(text.substr(dash + 1), 0, INT64_MAX, "range");
    Range out;
    if (dash == 0) { // the last so many
        if (!last) return std::nullopt;
        const auto count = std::min<std::uint64_t>(static_cast<std::uint64_t>(*last), size);
        unsatisfiable = count == 0;
        out = {.first = size - count, .last = size == 0 ? 0 : size - 1};
    } else {
        if (!first || (!last && dash + 1 < text.size())) return std::nullopt;
        out.first = static_cast<std::uint64_t>(*first);
        out.last = last ? std::min(static_cast<std::uint64_t>(*last), size == 0 ? 0 : size - 1)
                        : (size == 0 ? 0 : size - 1);
        if (last && *last < *first) return std::nullopt;
        unsatisfiable = out.first >= size;
    }
    if (unsatisfiable) return std::nullopt;
    return out;
}

/// What is said of an encoding, by its name or by "*"; nothing: not a word.
std::optional<bool> accepts(std::string_view accept_encoding, std::string_view encoding)
{
    std::optional<bool> all;
    for (const auto& part : split(accept_encoding, ',')) {
        const auto pieces = split(part, ';');
        std::string name = pieces.front();
        std::erase(name, ' ');
        bool zero = false;
        for (std::size_t i = 1; i < pieces.size(); ++i) {
            std::string quality = pieces[i];
            std::erase(quality, ' ');
            zero = quality == "q=0" || quality == "q=0.0" || quality == "q=0.00" || quality == "q=0.000";
        }
        if (http::same_word(name, encoding)) return !zero;
        if (name == "*") all = !zero;
    }
    return all;
}

} // namespace

Download plan_download(const http::RequestHead& head, const std::string& path, std::uint64_t size,
                       WallTime modified)
{
    Download out;
    const std::string date = date_of(modified);
    const std::string name = path.substr(path.rfind('/') + 1);
    out.headers = {{"Content-Type", std::string(type_of(path))},
                   {"Accept-Ranges", "bytes"},
                   {"Last-Modified", date},
                   {"Vary", "Accept-Encoding"},
                   {"Content-Disposition", "inline; filename*=UTF-8''" + percent_encode(name)}};
    out.length = size;
    if (unchanged(head, modified)) {
        out.status = 304;
        return out;
    }
    const auto if_range = head.value("if-range");
    if (!if_range.empty() && if_range != date) return out;
    bool unsatisfiable = false;
    // Of nothing there is no part, and nothing is all of it: clients exist that always ask for one.
    const auto range = size == 0 ? std::nullopt : range_of(head.value("range"), size, unsatisfiable);
    if (unsatisfiable) {
        out.status = 416;
        out.headers.emplace_back("Content-Range", fmt::format("bytes */{}", size));
    } else if (range) {
        out.status = 206;
        out.offset = range->first;
        out.length = range->last - range->first + 1;
        out.headers.emplace_back("Content-Range",
                                 fmt::format("bytes {}-{}/{}", range->first, range->last, size));
    }
    return out;
}

bool identity_acceptable(std::string_view accept_encoding)
{
    return accepts(accept_encoding, "identity").value_or(true);
}

bool gzip_acceptable(std::string_view accept_encoding)
{
    return accepts(accept_encoding, "gzip").value_or(false);
}

} // namespace berth::e2b

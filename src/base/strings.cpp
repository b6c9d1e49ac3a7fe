#include "base/strings.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

namespace berth {

namespace {

struct Unit {
    std::string_view name;
    double scale;
};

constexpr double kKi = 1024.0;

constexpr std::array kByteUnits{
    Unit{"", 1},
    Unit{"b", 1},
    Unit{"k", kKi},
    Unit{"kib", kKi},
    Unit{"kb", kKi},
    Unit{"m", kKi* kKi},
    Unit{"mib", kKi* kKi},
    Unit{"mb", kKi* kKi},
    Unit{"g", kKi* kKi* kKi},
    Unit{"gib", kKi* kKi* kKi},
    Unit{"gb", kKi* kKi* kKi},
    Unit{"t", kKi* kKi* kKi* kKi},
    Unit{"tib", kKi* kKi* kKi* kKi},
    Unit{"tb", kKi* kKi* kKi* kKi},
};

constexpr std::array kTimeUnits{
    Unit{"", 1e9},  Unit{"ns", 1},   Unit{"us", 1e3},   Unit{"ms", 1e6},
    Unit{"s", 1e9}, Unit{"m", 60e9}, Unit{"h", 3600e9}, Unit{"d", 86400e9},
};

std::string lower(std::string_view text)
{
    std::string out(text);
    for (char& c : out)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return out;
}

/// A non-negative decimal number followed by one of the units, scaled; nothing else.
template <std::size_t N>
Result<std::uint64_t> parse_scaled(std::string_view text, const std::array<Unit, N>& units,
                                   std::string_view kind, std::string_view example)
{
    const auto bad = [&] {
        return fail(Code::Invalid, "bad {} '{}': write it like {}", kind, printable(text, 60), example);
    };
    std::size_t digits = 0;
    while (digits < text.size() && ((text[digits] >= '0' && text[digits] <= '9') || text[digits] == '.'))
        ++digits;
    if (digits == 0) return bad();
    double number = 0;
    const auto [end, err] =
        std::from_chars(text.data(), text.data() + digits, number, std::chars_format::fixed);
    if (err != std::errc{} || end != text.data() + digits) return bad();
    const std::string unit = lower(text.substr(digits));
    const auto found = std::ranges::find(units, unit, &Unit::name);
    if (found == units.end()) return bad();
    const double scaled = number * found->scale;
    // 2^62: far beyond any limit we could set, and safely inside every integer used for it.
    if (!(scaled <= 4.6e18)) return fail(Code::Invalid, "{} '{}' is too large", kind, printable(text, 60));
    return static_cast<std::uint64_t>(std::llround(scaled));
}

/// Insertions, deletions, substitutions and swaps of neighbours, each one step.
std::size_t edit_distance(std::string_view a, std::string_view b)
{
    std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
    for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
    for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i)
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t change = a[i - 1] == b[j - 1] ? 0 : 1;
            d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + change});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
        }
    return d[a.size()][b.size()];
}

/// Length of the valid UTF-8 sequence at the start of `text`, 0 when there is none.
std::size_t utf8_length(std::string_view text)
{
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char lead = byte(0);
    const std::size_t need = lead < 0x80                   ? 1
                             : lead >= 0xc2 && lead < 0xe0 ? 2
                             : lead >= 0xe0 && lead < 0xf0 ? 3
                             : lead >= 0xf0 && lead < 0xf5 ? 4
                                                           : 0;
    if (need == 0 || text.size() < need) return 0;
    for (std::size_t i = 1; i < need; ++i)
        if ((byte(i) & 0xc0) != 0x80) return 0;
    if (need == 3 && ((lead == 0xe0 && byte(1) < 0xa0) || (lead == 0xed && byte(1) > 0x9f))) return 0;
    if (need == 4 && ((lead == 0xf0 && byte(1) < 0x90) || (lead == 0xf4 && byte(1) > 0x8f))) return 0;
    return need;
}

/// Turns the direction of text or ends a line without looking like it (U+200E, U+200F, U+2028 to U+202E,
/// U+2066 to U+2069): a name could pass for another. `text` begins with a valid sequence of three bytes.
bool steers(std::string_view text)
{
    const auto byte = [&](std::size_t i) {
        return static_cast<unsigned>(static_cast<unsigned char>(text[i]));
    };
    const unsigned point = (byte(0) & 0x0fU) << 12U | (byte(1) & 0x3fU) << 6U | (byte(2) & 0x3fU);
    return point == 0x200e || point == 0x200f || (point >= 0x2028 && point <= 0x202e) ||
           (point >= 0x2066 && point <= 0x2069);
}

} // namespace

Result<Bytes> parse_bytes(std::string_view text)
{
    BERTH_TRY(const auto count, parse_scaled(text, kByteUnits, "size", "512MiB or 2G"));
    return Bytes{count};
}

std::string show(Bytes bytes)
{
    constexpr std::array<std::string_view, 5> names{"B", "KiB", "MiB", "GiB", "TiB"};
    std::uint64_t count = bytes.count;
    std::size_t unit = 0;
    while (count != 0 && count % 1024 == 0 && unit + 1 < names.size()) {
        count /= 1024;
        ++unit;
    }
    return fmt::format("{} {}", count, names[unit]);
}

Result<std::chrono::nanoseconds> parse_duration(std::string_view text)
{
    BERTH_TRY(const auto count, parse_scaled(text, kTimeUnits, "duration", "500ms, 30s or 2h"));
    return std::chrono::nanoseconds(static_cast<std::int64_t>(count));
}

std::string show(std::chrono::nanoseconds duration)
{
    const std::int64_t ns = duration.count();
    constexpr std::array<std::pair<std::int64_t, std::string_view>, 6> units{{{86'400'000'000'000, "d"},
                                                                              {3'600'000'000'000, "h"},
                                                                              {60'000'000'000, "m"},
                                                                              {1'000'000'000, "s"},
                                                                              {1'000'000, "ms"},
                                                                              {1'000, "us"}}};
    for (const auto& [size, name] : units)
        if (ns != 0 && ns % size == 0) return fmt::format("{}{}", ns / size, name);
    return fmt::format("{}ns", ns);
}

Result<long long> parse_int(std::string_view text, long long low, long long high, std::string_view what)
{
    long long value = 0;
    const auto [end, err] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (err != std::errc{} || end != text.data() + text.size() || value < low || value > high)
        return fail(Code::Invalid, "bad {} '{}': a whole number from {} to {}", what, printable(text, 60),
                    low, high);
    return value;
}

std::vector<std::string> split(std::string_view text, char separator)
{
    std::vector<std::string> parts;
    for (std::size_t start = 0;;) {
        const std::size_t end = text.find(separator, start);
        parts.emplace_back(text.substr(start, end - start));
        if (end == std::string_view::npos) return parts;
        start = end + 1;
    }
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates)
{
    if (word.size() > 64) return {};
    std::string best;
    std::size_t best_distance = std::numeric_limits<std::size_t>::max();
    for (const auto& candidate : candidates) {
        const std::size_t distance = edit_distance(word, candidate);
        if (distance < best_distance) {
            best_distance = distance;
            best = candidate;
        }
    }
    // A third of the word may differ; beyond that a suggestion is noise.
    return best_distance <= std::max<std::size_t>(1, word.size() / 3) ? best : std::string{};
}

std::string printable(std::string_view text, std::size_t limit)
{
    // Nearly everything is plain, and each line of a server's log asks this seven times.
    const auto plain = [](char c) { return c >= 0x20 && c < 0x7f; };
    if (text.size() <= limit && std::ranges::all_of(text, plain)) return std::string(text);
    std::string out;
    while (!text.empty()) {
        if (out.size() >= limit) return out + "…";
        const std::size_t n = utf8_length(text);
        const auto c = static_cast<unsigned char>(text[0]);
        // C1 controls (U+0080..U+009F) steer some terminals just as ESC does.
        const bool c1 = n == 2 && c == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0;
        if (n == 0 || c < 0x20 || c == 0x7f || c1 || (n == 3 && steers(text))) {
            out += c == '\n' ? "\\n" : c == '\t' ? "\\t" : fmt::format("\\x{:02x}", c);
            text.remove_prefix(1);
        } else {
            out += text.substr(0, n);
            text.remove_prefix(n);
        }
    }
    return out;
}

std::string printable_utf8(std::string_view text)
{
    std::string out;
    while (!text.empty()) {
        const std::size_t n = utf8_length(text);
        out += n == 0 ? "\xef\xbf\xbd" : text.substr(0, n);
        text.remove_prefix(n == 0 ? 1 : n);
    }
    return out;
}

} // namespace berth

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/statistics.hpp"

namespace berth::bench {

enum class Unit {
    Nanoseconds,
    BytesPerSecond,
    Bytes,
    Count,
};
[[nodiscard]] std::string_view to_string(Unit unit) noexcept;

/// All samples of one case, by repeat of the whole table.
struct Series {
    std::string name;
    Unit unit = Unit::Nanoseconds;
    std::vector<std::vector<double>> repeats;

    [[nodiscard]] std::vector<double> all() const;
};

/// How a subject is set against its reference.
enum class Relation {
    Cost,   ///< subject / reference, small is good: "2.5 x RA"
    Lead,   ///< reference / subject, large is good: "2.8 x faster than bwrap"
    Share,  ///< subject / reference, large is good, of rates: "0.8 x plain relay"
    Amount, ///< the subject alone, small is good
};
[[nodiscard]] std::string_view to_string(Relation relation) noexcept;

struct Bar {
    double limit = 0;
    double stretch = 0; ///< the real aim; 0: none
};

/// What is said about a series, and the bar it is held to.
struct Claim {
    std::string subject;
    std::string reference; ///< empty for Amount
    Relation relation = Relation::Cost;
    std::optional<Bar> bar;
};

enum class Verdict {
    None, ///< no bar
    Pass,
    Fail,
    Inconclusive, ///< the reference itself moved too much between repeats
};
[[nodiscard]] std::string_view to_string(Verdict verdict) noexcept;

struct Judged {
    Claim claim;
    std::vector<double> values; ///< one each repeat
    double value = 0;           ///< their median
    double at_best = 0;         ///< the same of the minima: what is left when others' load is taken away
    double reference_spread = 0;
    Verdict verdict = Verdict::None;
    bool stretch = false; ///< the aim is met, too
};

/// A peer or a row that was left out, and what would bring it in.
struct Skipped {
    std::string name;
    std::string reason;
    std::string remedy; ///< a command; may be empty
};

/// One table of results: what was measured under the same conditions.
struct Table {
    std::string name;
    std::vector<Series> series;
    std::vector<Claim> claims;
    std::vector<Skipped> skipped;
    std::vector<std::string> problems; ///< wrong answers and leaks; each is a failure

    [[nodiscard]] const Series* find(std::string_view name) const;
};

/// More than this between the p50s of a reference, and its ratios mean nothing.
constexpr double kMaxReferenceSpread = 0.40;

/// Every claim whose series were measured. `loosen` widens the bars (1: as they are).
[[nodiscard]] std::vector<Judged> judge(const Table& table, double loosen);

} // namespace berth::bench

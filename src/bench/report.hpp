#pragma once

#include <string>
#include <vector>

#include "base/json.hpp"
#include "bench/machine.hpp"
#include "bench/table.hpp"

namespace berth::bench {

/// Everything one run of `berth bench` found.
struct Report {
    Machine machine;
    unsigned rounds = 0;
    unsigned repeats = 0;
    double loosen = 1;
    std::vector<Table> tables;
};

struct Tally {
    unsigned passed = 0;
    unsigned failed = 0;
    unsigned inconclusive = 0;
    unsigned problems = 0;
    [[nodiscard]] bool ok() const noexcept { return failed == 0 && problems == 0; }
};

[[nodiscard]] Tally tally(const Report& report);

/// For people: one block a table, one line a case, further claims below it.
[[nodiscard]] std::string render_text(const Report& report);
[[nodiscard]] json::Object render_json(const Report& report);

/// "1.25 ms", "820 MB/s", "150 KiB", "3".
[[nodiscard]] std::string show(double value, Unit unit);

} // namespace berth::bench
